package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	testLimit = time.Minute // how long a test may take alone; one that takes longer is not asked
	slower    = 6           // how many times as long as that a change may take
	rounds    = 3           // how often a change is tried while the machine is too busy for the tests without it
)

// verdict is the outcome of a change.
type verdict int

const (
	survived  verdict = iota
	noticed           // a test failed, or took too long
	undecided         // the tests took too long without it, too
)

func (v verdict) String() string { return [...]string{"survived", "noticed", "undecided"}[v] }

// probe is one test and the changes that it comes by.
type probe struct {
	name  string
	took  time.Duration
	comes map[int]bool // by which changes
}

// try tries the changes of a package. It prints survivors and undecided changes at the end, in the
// order of the code. Its files are in a temporary directory, which it removes.
func try(ctx context.Context, opts options, s subject, known *ledger) (tally, error) {
	t := tally{pkg: s.pkg}
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return t, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	b, err := build(ctx, opts.root, work, s)
	if err != nil {
		return t, err
	}
	var chosen []mutant
	for _, m := range b.mutants {
		if opts.only.MatchString(m.key) && isChosen(m.key, opts.sample) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return t, nil
	}
	probes, err := b.probes(ctx, opts, s, work)
	if err != nil {
		return t, err
	}
	results := b.tryAll(ctx, opts, chosen, probes)
	if ctx.Err() != nil {
		return t, ctx.Err()
	}
	for i, m := range chosen {
		t.tried++
		switch is := known.has(m.key); {
		case results[i] == noticed:
			t.killed++
		case is:
			t.equivalent++
			known.use(m.key)
		case results[i] == undecided:
			t.undecided++
			_, _ = fmt.Fprintf(opts.out, "undecided %s:%d  %s\n", m.file, m.line, m.key)
		default:
			t.survivors++
			_, _ = fmt.Fprintf(opts.out, "survivor  %s:%d  %s\n", m.file, m.line, m.key)
		}
	}
	return t, nil
}

// isChosen reports whether a change belongs to the sample, which depends on the change alone. With
// one = n, about one change in n is chosen; with 0 and 1, all are.
func isChosen(key string, one uint) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return uint(h.Sum32())%max(one, 1) == 0
}

// probes runs each test alone, with no change on. It returns an error if a test fails with no
// change on.
func (b *built) probes(ctx context.Context, opts options, s subject, work string) ([]probe, error) {
	// A test with package rapid writes failing input into the tree, unless it is told not to.
	b.args = []string{"-rapid.nofailfile"}
	out, err := b.test(ctx, testLimit, nil, "-test.list=.")
	if err != nil {
		b.args = nil
		out, err = b.test(ctx, testLimit, nil, "-test.list=.")
	}
	if err != nil {
		return nil, fmt.Errorf("list tests: %w\n%s", err, out)
	}
	wanted, err := regexp.Compile(s.tests)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") && name != "TestMain" && wanted.MatchString(name) {
			names = append(names, name)
		}
	}
	all := make([]probe, len(names))
	errs := make([]error, len(names))
	inParallel(opts.workers, len(names), func(i int) {
		all[i], errs[i] = b.probe(ctx, names[i], filepath.Join(work, "seen"+strconv.Itoa(i)))
	})
	return all, errors.Join(errs...)
}

// probe runs one test alone. A test that takes testLimit comes by no change, so it is not asked.
func (b *built) probe(ctx context.Context, name, file string) (probe, error) {
	p := probe{name: name, comes: map[int]bool{}}
	began := time.Now()
	out, err := b.test(ctx, testLimit, []string{"SLUICE_MUTANTS_SEEN=" + file}, "-test.short", "-test.run=^"+name+"$")
	p.took = time.Since(began)
	if p.took >= testLimit {
		return probe{name: name}, nil // not one of those that are asked
	}
	if err != nil {
		return p, fmt.Errorf("%s fails with no change on: %w\n%s", name, err, out)
	}
	seen, err := os.ReadFile(file) // #nosec G304
	if err != nil {
		return p, err
	}
	lines := bufio.NewScanner(bytes.NewReader(seen))
	for lines.Scan() {
		if id, err := strconv.Atoi(lines.Text()); err == nil {
			p.comes[id] = true
		}
	}
	return p, lines.Err()
}

// tryAll returns the outcome of each change. A change that no test comes by has survived. If ctx
// ends, the result means nothing.
func (b *built) tryAll(ctx context.Context, opts options, chosen []mutant, probes []probe) []verdict {
	verdicts := make([]verdict, len(chosen))
	var saying sync.Mutex
	inParallel(opts.workers, len(chosen), func(i int) {
		if ctx.Err() != nil {
			return
		}
		var names []string
		limit := opts.grace
		for _, p := range probes {
			if p.comes[chosen[i].id] {
				names = append(names, p.name)
				limit += slower * p.took
			}
		}
		said := "no test comes by"
		if len(names) > 0 {
			verdicts[i], said = b.decide(ctx, limit, chosen[i].id, "-test.run=^("+strings.Join(names, "|")+")$")
		}
		if opts.verbose {
			saying.Lock()
			defer saying.Unlock()
			_, _ = fmt.Fprintf(opts.out, "%-9s  %s:%d  %s  (%s)\n", verdicts[i], chosen[i].file, chosen[i].line, chosen[i].key, said)
		}
	})
	return verdicts
}

// decide runs tests with a change on. Tests that take too long have noticed it only if they take
// less without it: on a busy machine everything takes too long. said is the test that failed.
func (b *built) decide(ctx context.Context, limit time.Duration, id int, tests string) (v verdict, said string) {
	args := []string{"-test.short", "-test.failfast", tests}
	for range rounds {
		out, err := b.test(ctx, limit, []string{"SLUICE_MUTANT=" + strconv.Itoa(id)}, args...)
		switch {
		case err == nil:
			return survived, ""
		case !errors.Is(err, context.DeadlineExceeded):
			return noticed, failed(out)
		}
		if _, err = b.test(ctx, limit, nil, args...); err == nil {
			return noticed, "it took longer than " + limit.String()
		}
	}
	return undecided, "the tests without it do not pass within " + limit.String()
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*)$`)

// failed returns the name of the first failed test in the output, or its panic; "" if there is
// neither.
func failed(out []byte) string {
	if m := failure.FindSubmatch(out); m != nil {
		return string(append(m[1], m[2]...))
	}
	return ""
}

// test runs the test binary. A run that takes longer than the limit is killed, with all that it
// started; its error is context.DeadlineExceeded. Its output is stdout and stderr together.
func (b *built) test(ctx context.Context, limit time.Duration, env []string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.binary, append(args, b.args...)...) // #nosec G204
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), env...)
	killWhole(cmd)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // rather than that it was killed
	}
	return out, err
}

// inParallel calls f with 0 to n-1, in at most workers goroutines at once, and returns when all
// calls have returned. It uses at least one goroutine.
func inParallel(workers, n int, f func(i int)) {
	var all sync.WaitGroup
	places := make(chan struct{}, max(workers, 1))
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	all.Wait()
}
