package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// step is a block of commands in a document, and what it says that they print.
type step struct{ commands, prints string }

// stepsOf returns the blocks of a document that are marked sh, each with the block marked text
// that follows it before the next.
func stepsOf(document string) (all []step) {
	for _, block := range regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$").FindAllStringSubmatch(document, -1) {
		switch {
		case block[1] == "sh":
			all = append(all, step{commands: block[2]})
		case len(all) > 0 && all[len(all)-1].prints == "":
			all[len(all)-1].prints = block[2]
		}
	}
	return all
}

// expected returns what finds the lines in an output, in their order and with any others between
// them; "…" stands for anything within a line, and one space for many.
func expected(prints string) *regexp.Regexp {
	var text strings.Builder
	text.WriteString("(?m)")
	for line := range strings.Lines(prints) {
		words := strings.Fields(line)
		for i, word := range words {
			words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*")
		}
		text.WriteString("^" + strings.Join(words, " +") + ".*$(?s:.*)")
	}
	return regexp.MustCompile(text.String())
}

// walk carries out the steps of a document as a reader would, in one shell after another that know one
// another's variables. A step is repeated until it prints what the document says, because what it looks at may take a
// moment. One that fails does so as the document says.
func walk(ts *testscript.TestScript, _ bool, args []string) {
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(args[0])))
	ts.Check(err)
	document := string(text)
	for _, pair := range args[1:] {
		old, now, _ := strings.Cut(pair, "=")
		document = strings.ReplaceAll(document, old, now)
	}
	steps := stepsOf(document)
	if len(steps) == 0 {
		ts.Fatalf("%s has no steps", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs("variables"), nil, 0o600))
	for _, s := range steps {
		want, told := expected(s.prints), false
		until(ts, s.commands+"prints\n"+s.prints, func() bool {
			err := ts.Exec("sh", "-c", "set -a; . ./variables; exec 2>&1\n"+s.commands+"status=$?; export -p >variables; exit $status")
			printed := ts.ReadFile("stdout")
			ok := want.MatchString(printed) && (err == nil) != strings.Contains(printed, "sluice: ")
			if !ok && !told {
				told = true
				ts.Logf("not yet: %s", printed)
			}
			return ok
		})
	}
}

// repository is the root of the repository, from the directory in which tests run.
const repository = "../.."
