package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ledger holds the equivalent changes of one package: those that no test can notice. It is not safe
// for concurrent use.
type ledger struct {
	keys []string
	used map[string]bool
}

// equivalents returns the file with a package's equivalent changes. Each package has its own, so
// that the authors of changes to two packages do not meet.
func equivalents(pkg string) string {
	return filepath.Join("scripts", "mutants", "equivalent", strings.ReplaceAll(pkg, "/", "-")+".txt")
}

// readEquivalent reads a package's file, if there is one: lines as -v prints a change, and indented
// below them the reason why no test can notice them. Lines that begin with # are comments. It
// returns an error for a key without a reason, a repeated key, and a key of another package.
func readEquivalent(root, pkg string) (*ledger, error) {
	l := &ledger{used: map[string]bool{}}
	name := equivalents(pkg)
	text, err := os.ReadFile(filepath.Join(root, name)) // #nosec G304
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	reasoned := true
	for line := range strings.Lines(string(text)) {
		key := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "\t"):
			reasoned = true
		case !reasoned && key == "":
			return nil, fmt.Errorf("%s: no reason below %s", name, l.keys[len(l.keys)-1])
		case strings.HasPrefix(line, "#") || key == "":
		case !strings.HasPrefix(key, pkg+" "):
			return nil, fmt.Errorf("%s: not a change of %s: %s", name, pkg, key)
		case slices.Contains(l.keys, key):
			return nil, fmt.Errorf("%s: twice: %s", name, key)
		default:
			l.keys, reasoned = append(l.keys, key), false
		}
	}
	if !reasoned {
		return nil, fmt.Errorf("%s: no reason below %s", name, l.keys[len(l.keys)-1])
	}
	return l, nil
}

func (l *ledger) has(key string) bool { return slices.Contains(l.keys, key) }

func (l *ledger) use(key string) { l.used[key] = true }

// unused returns the changes in the file that do not exist, or that a test noticed.
func (l *ledger) unused() (keys []string) {
	for _, key := range l.keys {
		if !l.used[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
