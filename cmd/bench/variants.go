package main

import (
	"fmt"
	"slices"
)

// variantsPlan is the rows of speed under loads that each differ in one thing.
type variantsPlan struct {
	plan

	sizes []int // of events' data, in bytes
	many  []int // paths; each has an event at least
}

// bodies are the rows of the size of events.
func (p variantsPlan) bodies(e env) []section {
	var all []variant
	for _, size := range p.sizes {
		with := p.plan
		with.size = size
		all = append(all, variant{fmt.Sprintf(", %s bytes", number(float64(size))), defaultSync, with})
	}
	return p.section("bodies", "Sizes of events", "The same load as in the table of speed, with data of several sizes.", versus(e, all...))
}

// overPaths are the rows of the number of paths.
func (p variantsPlan) overPaths(e env) []section {
	var all []variant
	for _, paths := range p.many {
		with := p.plan
		with.paths = paths
		if paths > with.events {
			with.events, with.floods = paths, 1
		}
		all = append(all, variant{", paths: " + number(float64(paths)), defaultSync, with})
	}
	about := "The same load as in the table of speed, over several numbers of paths. " +
		"Sluice sends one event of a path at a time, the next after the answer; the bare loop keeps no order."
	return p.section("paths", "Numbers of paths", about, versus(e, all...))
}

// schemes are the rows of what a request consists of.
func (p variantsPlan) schemes(e env) []section {
	const usual = "standard, cloudevents"
	with := func(name, base string, settings policy) subject[sample] {
		return p.row(system{name, defaultSync, starter(e.binary, settings)}, base)
	}
	all := []subject[sample]{with(usual, "", nil)}
	for _, scheme := range []string{"ed25519", "t-sha256", "header"} {
		all = append(all, with(scheme+", cloudevents", usual, policy{"signature": map[string]any{"scheme": scheme}}))
	}
	for _, envelope := range []string{"cloudevents-binary", "fact", "attempt", "raw"} {
		all = append(all, with("standard, "+envelope, usual, policy{"envelope": envelope}))
	}
	about := "The same load as in the table of speed, with each signature scheme and each envelope. The baseline is the default of both."
	return p.section("schemes", "Signatures and envelopes", about, all)
}

// section returns a table of speed; the columns that do not differ are left out.
func (p variantsPlan) section(name, title, about string, rows []subject[sample]) []section {
	columns := slices.DeleteFunc(sampleColumns(), func(c column[sample]) bool { return c.Name == "paced CPU each ms" || c.Name == "RSS MiB" })
	return []section{table[sample]{
		name: name, title: title, about: about, plot: perSecondColumn, columns: columns, rounds: p.rounds, subjects: rows,
	}}
}
