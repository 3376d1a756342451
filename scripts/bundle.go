//go:build ignore

// Command bundle writes pkg/console/assets from pkg/console/ui with esbuild, which is no part of the product: make console
// runs it with esbuild.mod. With -check it compares instead, and fails if they differ.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	sources  = "pkg/console/ui"
	target   = "pkg/console/assets"
	packages = "scripts/interop/node_modules"
)

func main() {
	check := flag.Bool("check", false, "compare the bundle with the files in "+target)
	flag.Parse()
	made, err := build()
	if err == nil {
		if *check {
			err = compare(made)
		} else {
			err = write(made)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// build returns the files of the bundle by name.
func build() (map[string][]byte, error) {
	nodePath, err := filepath.Abs(packages)
	if err != nil {
		return nil, err
	}
	r := api.Build(api.BuildOptions{
		EntryPoints:       []string{sources + "/console.tsx", sources + "/portal.tsx", sources + "/element.ts", sources + "/style.css"},
		Outdir:            target,
		Bundle:            true,
		Splitting:         true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		ChunkNames:        "chunk-[hash]",
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		NodePaths:         []string{nodePath},
		PreserveSymlinks:  true, // names of chunks depend on paths
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone,
		LogLevel:          api.LogLevelWarning,
		TsconfigRaw:       `{}`,
		Write:             false,
	})
	if len(r.Errors) > 0 {
		return nil, errors.New("the console does not build; run `npm ci` in scripts/interop if packages are missing")
	}
	made := map[string][]byte{}
	for _, f := range r.OutputFiles {
		made[filepath.Base(f.Path)] = f.Contents
	}
	made["LICENSES.txt"], err = licenses()
	return made, err
}

// licenses returns the licences of what the bundle contains.
func licenses() ([]byte, error) {
	var all bytes.Buffer
	for _, name := range []string{"preact", "@preact/signals", "@preact/signals-core", "uplot"} {
		text, err := os.ReadFile(filepath.Join(packages, name, "LICENSE"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&all, "%s\n\n%s\n\n", name, bytes.TrimSpace(text))
	}
	return all.Bytes(), nil
}

func write(made map[string][]byte) error {
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	for name, data := range made {
		if err := os.WriteFile(filepath.Join(target, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare returns an error if the files of the bundle are not those that are committed.
func compare(made map[string][]byte) error {
	known := map[string][]byte{}
	err := filepath.WalkDir(target, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		known[filepath.Base(path)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return err
	}
	if !maps.EqualFunc(made, known, bytes.Equal) {
		return fmt.Errorf("%s is not what %s builds to: run `make console` and commit\nbuilt:     %v\ncommitted: %v",
			target, sources, slices.Sorted(maps.Keys(made)), slices.Sorted(maps.Keys(known)))
	}
	return nil
}
