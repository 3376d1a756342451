package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ledger is which survivors are known to be equivalent.
type ledger struct {
	keys []string
	used map[string]bool
}

// readEquivalent reads equivalent.txt: lines with what -v prints of a change, and indented below them why no test can
// notice them. Lines that begin with # are for people.
func readEquivalent(root string) (*ledger, error) {
	text, err := os.ReadFile(filepath.Join(root, "scripts", "mutants", "equivalent.txt")) // #nosec G304
	if err != nil {
		return nil, err
	}
	l := &ledger{used: map[string]bool{}}
	reasoned := true
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "\t"):
			reasoned = true
		case !reasoned && strings.TrimSpace(line) == "":
			return nil, fmt.Errorf("equivalent.txt: no reason below %s", l.keys[len(l.keys)-1])
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		default:
			l.keys, reasoned = append(l.keys, strings.TrimSpace(line)), false
		}
	}
	if !reasoned {
		return nil, fmt.Errorf("equivalent.txt: no reason below %s", l.keys[len(l.keys)-1])
	}
	return l, nil
}

func (l *ledger) has(key string) bool { return slices.Contains(l.keys, key) }

func (l *ledger) use(key string) { l.used[key] = true }

// unused returns what equivalent.txt has of the packages that did not come up.
func (l *ledger) unused(packages []string) (keys []string) {
	for _, key := range l.keys {
		pkg, _, _ := strings.Cut(key, " ")
		if !l.used[key] && (len(packages) == 0 || slices.Contains(packages, pkg)) {
			keys = append(keys, key)
		}
	}
	return keys
}
