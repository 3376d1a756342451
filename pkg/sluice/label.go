package sluice

import (
	"encoding/json"
	"slices"
	"strings"
)

// Level is a sensitivity level; the zero Level is PUBLIC. JSON has its name.
type Level uint8

// The levels, ascending.
const (
	LevelPublic Level = iota
	LevelInternal
	LevelConfidential
	LevelSecret
	LevelTopSecret
)

func levelNames() [5]string {
	return [...]string{"PUBLIC", "INTERNAL", "CONFIDENTIAL", "SECRET", "TOP_SECRET"}
}

// ParseLevel returns the level with a name. Code InvalidRequest for an unknown name.
func ParseLevel(name string) (Level, error) {
	names := levelNames()
	i := slices.Index(names[:], name)
	if i < 0 {
		return 0, Errorf(InvalidRequest, "level %q: use one of %s", clip(name), strings.Join(names[:], ", ")).With("field", "level")
	}
	return Level(i), nil //nolint:gosec // one of five
}

// String returns the level's name.
func (l Level) String() string { return levelNames()[min(l, LevelTopSecret)] }

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses a level's name; empty text is PUBLIC.
func (l *Level) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*l = LevelPublic
		return nil
	}
	*l, err = ParseLevel(string(text))
	return err
}

// Label is the sensitivity of a resource and its compartments; for a principal, its clearance. The
// zero Label is PUBLIC and without compartments.
type Label struct {
	Level        Level    `json:"level"`
	Compartments []string `json:"compartments"` // ascending, without duplicates
}

// MarshalJSON returns the label as JSON, with an empty list if there are no compartments.
func (l Label) MarshalJSON() ([]byte, error) {
	type bare Label
	if l.Compartments == nil {
		l.Compartments = []string{}
	}
	return json.Marshal(bare(l)) //nolint:wrapcheck // of a label
}

// maxCompartments limits the compartments of a label.
const maxCompartments = 32

// Check returns an error (InvalidRequest) unless the label is valid, and sorts its compartments.
func (l *Label) Check() error {
	if len(l.Compartments) > maxCompartments {
		return Errorf(InvalidRequest, "compartments: use at most %d", maxCompartments).With("field", "compartments")
	}
	for _, c := range l.Compartments {
		if c == "" || len(c) > 64 || strings.ContainsFunc(c, strangeInName) {
			return Errorf(InvalidRequest, "compartment %q: use 1 to 64 of A-Z, a-z, 0-9, _ - . @ and +", clip(c)).With("field", "compartments")
		}
	}
	l.Compartments = slices.Clone(l.Compartments)
	slices.Sort(l.Compartments)
	l.Compartments = slices.Compact(l.Compartments)
	return nil
}

// Dominates reports whether a clearance l permits access to label m: the level of l is not lower,
// and l includes every compartment of m.
func (l Label) Dominates(m Label) bool {
	if l.Level < m.Level {
		return false
	}
	for _, c := range m.Compartments {
		if !slices.Contains(l.Compartments, c) {
			return false
		}
	}
	return true
}

// Public reports whether the label permits access by every principal.
func (l Label) Public() bool { return l.Level == LevelPublic && len(l.Compartments) == 0 }

// AttributeClassification is the extension attribute with which an event raises its label above
// that of its namespace. Its value is a level, or a level, "/" and comma-separated compartments,
// such as "SECRET/finance,legal".
const AttributeClassification = "dataclassification"

// ParseClassification returns the label of an event's attribute. Code InvalidRequest if it is
// malformed.
func ParseClassification(s string) (Label, error) {
	name, list, more := strings.Cut(s, "/")
	level, err := ParseLevel(name)
	if err != nil {
		return Label{}, err
	}
	l := Label{Level: level}
	if more {
		l.Compartments = strings.Split(list, ",")
	}
	return l, l.Check()
}
