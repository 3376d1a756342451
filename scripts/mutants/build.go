package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed helper.go.txt
var helper string

// most is how many changes a package can have: the helper remembers so many.
const most = 1 << 16

// built is a package's test binary with all changes in it. The binary can run several times at
// once.
type built struct {
	dir     string // of the package
	binary  string
	args    []string // with which its tests write nothing into the tree
	mutants []mutant
}

// build builds the tests of a package with every change that compiles. It repeats the build without
// the changes that do not compile, until it succeeds or nothing more can be left out.
func build(ctx context.Context, root, work string, s subject) (*built, error) {
	dir, err := filepath.Abs(filepath.Join(root, s.pkg))
	if err != nil {
		return nil, err
	}
	files, err := sources(dir, s.files)
	if err != nil {
		return nil, err
	}
	b := &built{dir: dir, binary: filepath.Join(work, "test")}
	skip := map[int]bool{}
	for {
		overlay, err := b.write(work, s, files, skip)
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-gcflags=-e", "-o", b.binary, ".") // #nosec G204
		cmd.Dir = dir
		said, err := cmd.CombinedOutput()
		if err == nil {
			return b, nil
		}
		if before := len(skip); ctx.Err() != nil || b.blame(said, skip) == before {
			return nil, fmt.Errorf("build: %w\n%s", err, said)
		}
	}
}

// sources returns the names of the files that are changed. It returns an error if there are none,
// or if a chosen file is missing.
func sources(dir string, chosen []string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range all {
		if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") && (chosen == nil || slices.Contains(chosen, name)) {
			names = append(names, name)
		}
	}
	if len(names) == 0 || chosen != nil && len(names) != len(chosen) {
		return nil, fmt.Errorf("of %v there are %v", chosen, names)
	}
	return names, nil
}

// write writes the changed files, the helper and the overlay that puts them in the place of the
// others. The numbers of changes are the same each time, as skipped ones keep theirs.
func (b *built) write(work string, s subject, files []string, skip map[int]bool) (overlay string, err error) {
	b.mutants = nil
	last := 0
	next := func() int { last++; return last }
	seen := map[string]int{}
	replace := map[string]string{}
	name := ""
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(b.dir, file)) // #nosec G304
		if err != nil {
			return "", err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		name = parsed.Name.Name
		src := &source{path: filepath.Join(s.pkg, file), text: text, fset: token.NewFileSet(), pkg: s.pkg, seen: seen, next: next, skip: skip}
		changed, found, err := src.plant()
		if err != nil {
			return "", err
		}
		b.mutants = append(b.mutants, found...)
		if err := os.WriteFile(filepath.Join(work, file), changed, 0o600); err != nil { // #nosec G703
			return "", err
		}
		replace[filepath.Join(b.dir, file)] = filepath.Join(work, file)
	}
	if last >= most {
		return "", errors.New("too many changes")
	}
	help := filepath.Join(work, "helper.go")
	replace[filepath.Join(b.dir, "zz_mutants.go")] = help
	if err := os.WriteFile(help, []byte(strings.Replace(helper, "PACKAGE", name, 1)), 0o600); err != nil { // #nosec G703
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(work, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

var complaint = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// blame leaves out the changes on lines that do not compile, and returns how many are left out now.
// A left-out statement is hardly ever the cause.
func (b *built) blame(said []byte, skip map[int]bool) int {
	for _, m := range complaint.FindAllSubmatch(said, -1) {
		line, _ := strconv.Atoi(string(m[2]))
		file := filepath.Base(string(m[1]))
		var calls, statements []int
		for _, x := range b.mutants {
			switch {
			case filepath.Base(x.file) != file || line < x.line || x.end < line:
			case strings.Contains(x.key, ": without: "):
				statements = append(statements, x.id)
			default:
				calls = append(calls, x.id)
			}
		}
		if len(calls) == 0 {
			calls = statements
		}
		for _, id := range calls {
			skip[id] = true
		}
	}
	return len(skip)
}
