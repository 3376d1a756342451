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

// lastCommand splits the commands of a step before the last one, which may be continued over lines or end in a here-document.
func lastCommand(commands string) (before, last string) {
	lines := strings.SplitAfter(strings.TrimRight(commands, "\n")+"\n", "\n")
	at := len(lines) - 2 // the last element is empty
	for at > 0 && strings.HasSuffix(lines[at-1], "\\\n") {
		at--
	}
	here := "<<'" + strings.TrimSpace(lines[at]) + "'\n"
	for i := at - 1; i >= 0; i-- {
		if strings.HasSuffix(lines[i], here) {
			at = i
			break
		}
	}
	return strings.Join(lines[:at], ""), strings.Join(lines[at:], "")
}

// sectionOf returns the section of a document that has an anchor, up to the next heading of its level or above; "" if there is none.
func sectionOf(document, anchor string) string {
	var section strings.Builder
	level, code := 0, false
	for line := range strings.Lines(document) {
		code = code != strings.HasPrefix(line, "```")
		marks, title, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !code && marks != "" && strings.Trim(marks, "#") == "" {
			if level > 0 && len(marks) <= level {
				break
			}
			if strings.ReplaceAll(strings.ToLower(title), " ", "-") == anchor {
				level = len(marks)
			}
		}
		if level > 0 {
			section.WriteString(line)
		}
	}
	return section.String()
}

// walk carries out the steps of a document, or of its section with an anchor, as a reader would, in one shell after another that know one
// another's variables. The last command of a step is repeated until the step has printed what the document says,
// because its result may take a moment; the others run once. A step that fails does so as the document says.
func walk(ts *testscript.TestScript, _ bool, args []string) {
	file, anchor, _ := strings.Cut(args[0], "#")
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(file)))
	ts.Check(err)
	if anchor != "" {
		text = []byte(sectionOf(string(text), anchor))
	}
	examples, err := filepath.Abs(filepath.Join(repository, "docs", "examples"))
	ts.Check(err)
	document := strings.ReplaceAll(string(text), "docs/examples/", examples+"/") // a reader is in a checkout
	for _, pair := range args[1:] {
		old, now, _ := strings.Cut(pair, "=")
		document = strings.ReplaceAll(document, old, now)
	}
	steps := stepsOf(document)
	if len(steps) == 0 {
		ts.Fatalf("%s has no steps", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs("variables"), nil, 0o600))
	run := func(commands string) (printed string, err error) {
		err = ts.Exec("sh", "-c", "set -a; . ./variables; exec 2>&1\n"+commands+"status=$?; export -p >variables; exit $status")
		return ts.ReadFile("stdout"), err
	}
	for _, s := range steps {
		want, before := expected(s.prints), ""
		first, last := lastCommand(s.commands)
		if first != "" {
			before, _ = run(first) // a command that fails as the document says prints that
		}
		told := false
		until(ts, s.commands+"prints\n"+s.prints, func() bool {
			printed, err := run(last)
			ok := want.MatchString(before+printed) && (err == nil) != strings.Contains(printed, "sluice: ")
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
