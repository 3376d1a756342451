package internal_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestMarkdown_LinksResolve checks that every relative link of every Markdown file leads to a file, and its fragment to
// a heading of that file.
func TestMarkdown_LinksResolve(t *testing.T) {
	t.Parallel()
	for _, name := range repositoryFiles(t, ".md") {
		for _, link := range linksOf(readText(t, name)) {
			checkLink(t, name, link)
		}
	}
}

func checkLink(t *testing.T, name, link string) {
	t.Helper()
	target, fragment, _ := strings.Cut(link, "#")
	file := name
	if target != "" {
		file = filepath.Join(filepath.Dir(name), target)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("%s: %s leads nowhere", name, link)
		return
	}
	if fragment != "" && !slices.Contains(anchorsOf(readText(t, file)), fragment) {
		t.Errorf("%s: %s has no heading #%s", name, file, fragment)
	}
}

// TestMarkdown_PathsExist checks that every file and package of this repository that a document names is there. Decision
// records and the change log name what was there when they were written.
func TestMarkdown_PathsExist(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile("(?:^|[\\s`(\">[])((?:internal|pkg|cmd|scripts|deploy|config|streams|docs)/[A-Za-z0-9_./-]*[A-Za-z0-9_])")
	for _, name := range repositoryFiles(t, ".md") {
		if strings.Contains(name, "docs/decisions/") || filepath.Base(name) == "CHANGELOG.md" {
			continue
		}
		for _, found := range named.FindAllStringSubmatch(readText(t, name), -1) {
			if _, err := os.Stat(filepath.Join("..", found[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
	}
}

// TestMarkdown_ConflictsAreRegistered checks that docs/conflicts.md has a row for every Cnn that code or documents name.
func TestMarkdown_ConflictsAreRegistered(t *testing.T) {
	t.Parallel()
	registered := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (C\d\d) \|`).FindAllStringSubmatch(readText(t, "../docs/conflicts.md"), -1) {
		require.False(t, registered[row[1]], "%s has two rows", row[1])
		registered[row[1]] = true
	}
	number := regexp.MustCompile(`\bC\d\d\b`)
	for _, name := range repositoryFiles(t, ".go", ".md", ".yaml") {
		for _, named := range number.FindAllString(readText(t, name), -1) {
			if !registered[named] {
				t.Errorf("%s names %s, which has no row in docs/conflicts.md", name, named)
			}
		}
	}
}

func TestAnchorsOf_GitHubStyle(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"why-has-my-event-not-arrived", "a-b--c", "twice", "twice-1", "go"},
		anchorsOf("# Why has my event not arrived?\n## A `b` & [c](x.md)\n## Twice\n```sh\n# no heading\n```\n## Twice\n### **Go**\n"))
}

// repositoryFiles returns the files of the repository with one of the extensions, without those that were built or fetched.
func repositoryFiles(t *testing.T, extensions ...string) (names []string) {
	t.Helper()
	skipped := []string{"node_modules", ".git", "bin", "testdata"}
	require.NoError(t, filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case !d.IsDir() && slices.Contains(extensions, filepath.Ext(name)):
			names = append(names, name)
		}
		return nil
	}))
	require.NotEmpty(t, names)
	return names
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// linksOf returns the relative links of a document, as they stand there.
func linksOf(document string) (links []string) {
	for _, found := range regexp.MustCompile(`\]\(([^()\s]+)\)`).FindAllStringSubmatch(withoutCode(document), -1) {
		if !strings.Contains(found[1], ":") {
			links = append(links, found[1])
		}
	}
	return links
}

// anchorsOf returns the anchors of the headings of a document, as GitHub makes them.
func anchorsOf(document string) (anchors []string) {
	seen := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^#{1,6} +(.*)$`).FindAllStringSubmatch(withoutBlocks(document), -1) {
		heading := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(found[1], "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))
		n := seen[anchor]
		seen[anchor]++
		if n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

func withoutBlocks(document string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(document, "")
}

func withoutCode(document string) string {
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(withoutBlocks(document), "code")
}
