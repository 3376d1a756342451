// Command mutants changes the decision code of this module one place at a time and looks whether a
// test of the same package fails. A change that no test notices is a survivor: the code does not
// matter, or a test is missing.
//
//	mutants [-sample n] [-only regexp] [-v] [package…]
//
// A package is built once, with every change in it and all of them off (go's -overlay; the tree is
// left alone). Each of its tests runs alone first, to learn which changes it comes by; then each
// change runs against those tests only, until one fails, panics or takes too long: six times as
// long as the tests alone, and the grace. After a time-out the tests run without the change and
// with the same limit. If they pass, the change was noticed; if not, the machine was busy, and the
// change is tried again. A change that three rounds do not decide counts as one that no test
// noticed.
//
// Survivors that are equivalent to the code stand in the directory equivalent, one file for each
// package, with the reason. The exit status is 1 if fewer than 95 in 100 of the others were
// noticed, or than a package's floor.
//
// -sample takes one change in n, chosen by its content: the same ones as long as their code stays,
// so that a sample that passes goes on passing until the code or the tests change.
//
// A line of the result names a change by its key, which is also that of the files in equivalent:
//
//	internal/retry Policy.next: the other bound of: n < limit (2)
//	│              │            │                   │          └ the second of equal ones
//	│              │            │                   └ the code, at most 160 bytes
//	│              │            └ the kind of change
//	│              └ the function, with its receiver's type
//	└ the package
//
// The helper, which is compiled into the package, takes its part from two environment variables:
// SLUICE_MUTANT is the number of the change that is on, and SLUICE_MUTANTS_SEEN a file to which it
// adds the number of each change that a test comes by.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// goal is how many in 100 changes that are not equivalent have to be noticed.
const goal = 95

type options struct {
	out     io.Writer
	root    string
	sample  uint
	only    *regexp.Regexp
	verbose bool
	workers int
	grace   time.Duration // time for a change, besides six times that of its tests without it
}

func main() {
	opts := options{out: os.Stdout}
	only := ""
	flag.StringVar(&opts.root, "root", ".", "where the module is")
	flag.UintVar(&opts.sample, "sample", 1, "try one change in so many")
	flag.StringVar(&only, "only", "", "try the changes whose key matches this `regexp`")
	flag.BoolVar(&opts.verbose, "v", false, "print every change and which tests noticed it")
	flag.IntVar(&opts.workers, "parallel", 2, "how many changes to try at once")
	flag.DurationVar(&opts.grace, "grace", 5*time.Second, "how long a change may take besides six times what its tests take without it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if opts.only, err = regexp.Compile(only); err == nil {
		err = run(ctx, opts, flag.Args())
	}
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// tally is the result of the changes of one package. tried is the sum of the others.
type tally struct {
	pkg                                             string
	tried, killed, equivalent, survivors, undecided int
}

// rate returns how many in 100 changes that are not equivalent were noticed. An undecided one was
// not.
func (t tally) rate() float64 {
	all := t.killed + t.survivors + t.undecided
	if all == 0 {
		return 100
	}
	return 100 * float64(t.killed) / float64(all)
}

// run tries the packages, all subjects if there are none, and prints the result. It stops at the
// first package that cannot be tried. It ignores unknown packages.
func run(ctx context.Context, opts options, packages []string) error {
	table := tabwriter.NewWriter(opts.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "package\tchanges\tnoticed\tequivalent\tsurvivors\tundecided\tnoticed of the others\tof")
	all := tally{pkg: "all"}
	var low, unused []string
	for _, s := range subjects() {
		if len(packages) > 0 && !slices.Contains(packages, s.pkg) {
			continue
		}
		known, err := readEquivalent(opts.root, s.pkg)
		if err != nil {
			return err
		}
		t, err := try(ctx, opts, s, known)
		if err != nil {
			return fmt.Errorf("%s: %w", s.pkg, err)
		}
		t.print(table, s.scope())
		if t.rate() < cmp.Or(s.floor, goal) {
			low = append(low, s.pkg)
		}
		all.add(t)
		unused = append(unused, known.unused()...)
	}
	all.print(table, "")
	if err := table.Flush(); err != nil {
		return err
	}
	if len(unused) > 0 && opts.sample == 1 && opts.only.String() == "" {
		return fmt.Errorf("the directory equivalent has changes that do not exist, or that a test notices:\n%s", strings.Join(unused, "\n"))
	}
	if len(low) > 0 {
		return fmt.Errorf("too many changes of %s were noticed by no test; write one, or say in scripts/mutants/equivalent why there can be none", strings.Join(low, ", "))
	}
	return nil
}

func (t *tally) add(u tally) {
	t.tried, t.killed, t.equivalent = t.tried+u.tried, t.killed+u.killed, t.equivalent+u.equivalent
	t.survivors, t.undecided = t.survivors+u.survivors, t.undecided+u.undecided
}

func (t tally) print(table *tabwriter.Writer, of string) {
	_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f %%\t%s\n", t.pkg, t.tried, t.killed, t.equivalent, t.survivors, t.undecided, t.rate(), of)
}
