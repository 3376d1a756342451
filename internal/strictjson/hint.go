package strictjson

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Hint says how to write a field.
type Hint struct {
	Use     string // the path of the right field, or advice
	Example string // JSON
}

// Hints are the hints for a kind of body. The keys are the names that users of other systems write,
// in lower case and without _ and -; the paths of the body's own fields, for values of another
// type; and "", for an example of the whole body.
type Hints map[string]Hint

// Hinted is a target with hints.
type Hinted interface{ JSONHints() Hints }

// lazyHints returns the hints. They are computed only if there is an error.
type lazyHints func() Hints

func hintsOf(target any) lazyHints {
	return func() Hints {
		if h, ok := target.(Hinted); ok {
			return h.JSONHints()
		}
		return nil
	}
}

// plain returns a name in the form of the keys of Hints: in lower case, without _ and -.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// last returns the last element of a path, and the path before it.
func last(path string) (name, before string) {
	i := strings.LastIndexByte(path, '.')
	return path[i+1:], path[:max(i, 0)]
}

// instead returns what to write instead of an unknown field, for the end of a message.
func (h Hints) instead(path string, t reflect.Type) string {
	name, before := last(path)
	hint, ok := h[plain(name)]
	if ok && hint.Example == "" {
		return "; use " + hint.Use
	}
	if ok {
		return "; use " + hint.Use + ": " + hint.Example
	}
	known := paths(t, "", 0)
	if near := Neighbour(path, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	var here []string
	for _, one := range known {
		if field, parent := last(one); parent == before {
			here = append(here, field)
		}
	}
	if len(here) == 0 || len(here) > mostListed {
		return ""
	}
	return "; valid fields are " + strings.Join(here, ", ")
}

// such returns an example of a field, or of the whole body if the path is "", for the end of a
// message.
func (h Hints) such(path string) string {
	if hint := h[plain(path)]; hint.Example != "" {
		return " such as " + hint.Example
	}
	return ""
}

const (
	deepest    = 4 // levels of fields that are searched; types may contain themselves
	mostListed = 20

	longest = 64 // bytes of a name that is compared with others
)

// paths returns the paths of all fields of a type.
func paths(t reflect.Type, prefix string, depth int) (all []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth == deepest || t.Kind() != reflect.Struct || ownDecoder(t) && depth > 0 {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		all = append(all, prefix+name)
		all = append(all, paths(f.Type, prefix+name+".", depth+1)...)
	}
	return all
}

// Neighbour returns the known path with the most similar last element; "" if none is similar. Among
// equally similar paths, it prefers one in the same object as the unknown field, then the shortest.
func Neighbour(path string, known []string) string {
	name, before := last(path)
	wanted := plain(name)
	if len(wanted) > longest {
		return ""
	}
	most := min(2, len(wanted)/3)
	type candidate struct {
		path     string
		distance int
		away     int
	}
	var near []candidate
	for _, one := range known {
		field, parent := last(one)
		if d := distance(wanted, plain(field)); d <= most {
			away := 0
			if parent != before {
				away = 1 + strings.Count(one, ".")
			}
			near = append(near, candidate{one, d, away})
		}
	}
	if len(near) == 0 {
		return ""
	}
	return slices.MinFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.away, b.away))
	}).path
}

// distance returns how many letters must be added, removed, replaced, or swapped with the next
// letter, to turn a into b (optimal string alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
