// Command mutants changes the decision code of this module one place at a time and looks whether a test of the same
// package fails. What no test notices is a survivor: the code does not matter, or a test is missing.
//
//	mutants [-sample n] [-only regexp] [-v] [package…]
//
// A package is built once, with every change in it and all of them off (go's -overlay; the tree is left alone). Each of
// its tests runs alone first, to learn which changes it comes by; then each change runs against those tests only, until one
// fails, panics or takes too long. Survivors that are equivalent to the code as it is stand in equivalent.txt, with
// the reason. The exit status is 1 if fewer than 95 in 100 of the others were noticed, or than a package's floor.
//
// -sample takes one change in n, chosen by its content: the same ones as long as their code stays, so that a sample that passes
// goes on passing until the code or the tests change.
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
}

func main() {
	opts := options{out: os.Stdout}
	only := ""
	flag.StringVar(&opts.root, "root", ".", "where the module is")
	flag.UintVar(&opts.sample, "sample", 1, "try one change in so many")
	flag.StringVar(&only, "only", "", "try the changes whose key matches this `regexp`")
	flag.BoolVar(&opts.verbose, "v", false, "print every change and which tests noticed it")
	flag.IntVar(&opts.workers, "parallel", 2, "how many changes to try at once")
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

// tally is what came of the changes of one package.
type tally struct {
	pkg                                  string
	tried, killed, equivalent, survivors int
}

func (t tally) rate() float64 {
	if t.killed+t.survivors == 0 {
		return 100
	}
	return 100 * float64(t.killed) / float64(t.killed+t.survivors)
}

func run(ctx context.Context, opts options, packages []string) error {
	known, err := readEquivalent(opts.root)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(opts.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "package\tchanges\tnoticed\tequivalent\tsurvivors\tnoticed of the others")
	all := tally{pkg: "all"}
	var low []string
	for _, s := range subjects() {
		if len(packages) > 0 && !slices.Contains(packages, s.pkg) {
			continue
		}
		t, err := try(ctx, opts, s, known)
		if err != nil {
			return fmt.Errorf("%s: %w", s.pkg, err)
		}
		t.print(table)
		if t.rate() < cmp.Or(s.floor, goal) {
			low = append(low, s.pkg)
		}
		all.tried, all.killed, all.equivalent, all.survivors = all.tried+t.tried, all.killed+t.killed, all.equivalent+t.equivalent, all.survivors+t.survivors
	}
	all.print(table)
	if err := table.Flush(); err != nil {
		return err
	}
	for _, key := range known.unused(packages) {
		if opts.sample == 1 && opts.only.String() == "" {
			return fmt.Errorf("equivalent.txt has a change that there is not, or that a test notices:\n%s", key)
		}
	}
	if len(low) > 0 {
		return fmt.Errorf("too many changes of %s were noticed by no test; write one, or say in scripts/mutants/equivalent.txt why there can be none", strings.Join(low, ", "))
	}
	return nil
}

func (t tally) print(table *tabwriter.Writer) {
	_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%.1f %%\n", t.pkg, t.tried, t.killed, t.equivalent, t.survivors, t.rate())
}
