package catalogue

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	budget      = 500_000 // steps of one check; a step takes about 100 ns
	maxPattern  = 1024    // bytes of a regular expression
	maxProgram  = 2000    // instructions of a compiled regular expression
	perStep     = 16      // instructions on one byte that take as long as a step
	numberSteps = 8       // price of one bound of a number
	sameSteps   = 8       // price of a schema for the same value, whose path is kept and searched for loops
	fewItems    = 20      // up to this number, each element is compared with each
)

var errSpent = errors.New("the budget is spent")

// meter is the remaining budget of one check. It is not safe for concurrent use.
type meter struct{ left int }

// pay charges steps. A check that could not pay has no result. The library takes the error for a
// violation, so the caller must look at left before the verdict.
func (m *meter) pay(steps int) error {
	if m.left -= steps; m.left < 0 {
		m.left = -1
		return errSpent
	}
	return nil
}

// expression is a regular expression that charges for the bytes it reads.
type expression struct {
	*regexp.Regexp

	meter *meter
	cost  int // instructions
}

// MatchString reports whether the expression matches a part of the string.
func (x *expression) MatchString(s string) bool {
	return x.meter.pay(1+(len(s)+1)*x.cost/perStep) == nil && x.Regexp.MatchString(s)
}

// engine compiles a regular expression of a schema with RE2: no lookahead, no backreference, and
// linear time.
func (m *meter) engine(pattern string) (jsonschema.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("longer than %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxProgram {
		return nil, errors.New("too many repetitions")
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return &expression{compiled, m, len(program.Inst)}, nil
}

// guard makes every reachable schema charge the meter before it is visited. It uses the schema's
// format, which the library checks first, for any value. It changes the compiled schemas, which
// therefore belong to one checker. The cost is O(schemas).
func (m *meter) guard(root *jsonschema.Schema) error {
	seen := map[*jsonschema.Schema]bool{root: true}
	for next := []*jsonschema.Schema{root}; len(next) > 0; {
		s := next[len(next)-1]
		next = next[:len(next)-1]
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return errors.New("$dynamicRef: use $ref")
		}
		same, inner := below(s)
		for _, child := range append(same, inner...) {
			if !seen[child] {
				seen[child] = true
				next = append(next, child)
			}
		}
		p := priceOf(s)
		s.Format = &jsonschema.Format{Name: "budget", Validate: func(v any) error { return m.pay(p.of(v)) }}
	}
	return nil
}

// price is the cost of checking a value against a schema and of reaching the guards of the schemas
// below it.
type price struct {
	once   int // for any value
	member int // for each member or element
	unique bool
}

func priceOf(s *jsonschema.Schema) price {
	same, inner := below(s)
	p := price{once: 1 + len(s.Required) + len(s.DependentRequired), member: 1 + len(same), unique: s.UniqueItems}
	for _, child := range same {
		p.once += sameSteps + door(child)
	}
	named := 0 // a member is checked against only one of these
	for _, child := range s.Properties {
		named = max(named, door(child))
	}
	for _, child := range inner[len(s.Properties):] {
		p.member += door(child)
	}
	p.member += named
	for _, required := range s.DependentRequired {
		p.once += len(required)
	}
	for _, bound := range []bool{s.Minimum != nil, s.Maximum != nil, s.ExclusiveMinimum != nil, s.ExclusiveMaximum != nil, s.MultipleOf != nil} {
		if bound {
			p.once += numberSteps
		}
	}
	return p
}

func (p price) of(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
	case []any:
		if n = len(v); p.unique {
			return p.once + n*p.member + min(n, fewItems)*sizeOf(v)
		}
	case string:
		return p.once + len(v)/64
	}
	return p.once + n*p.member
}

// door is the cost of the checks that come before the format: type, const and enum.
func door(s *jsonschema.Schema) int {
	steps := 1
	if s.Const != nil {
		steps += sizeOf(*s.Const)
	}
	if s.Enum != nil {
		steps += sizeOf(s.Enum.Values)
	}
	return steps
}

// sizeOf returns the number of values in a value, including itself.
func sizeOf(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, member := range v {
			n += 1 + sizeOf(member)
		}
	case []any:
		for _, element := range v {
			n += sizeOf(element)
		}
	case json.Number:
		n++
	}
	return n
}

// below returns the schemas that a schema applies to the same value, and those that it applies to
// the values inside it, properties first.
func below(s *jsonschema.Schema) (same, inner []*jsonschema.Schema) {
	same = append(same, s.AllOf...)
	same = append(same, s.AnyOf...)
	same = append(same, s.OneOf...)
	same = present(same, s.Ref, s.Not, s.If, s.Then, s.Else)
	for _, child := range s.DependentSchemas {
		same = append(same, child)
	}
	for _, dependency := range s.Dependencies {
		if child, ok := dependency.(*jsonschema.Schema); ok {
			same = append(same, child)
		}
	}
	for _, child := range s.Properties {
		inner = append(inner, child)
	}
	for _, child := range s.PatternProperties {
		inner = append(inner, child)
	}
	inner = append(inner, s.PrefixItems...)
	inner = present(inner, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	if child, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		inner = append(inner, child)
	}
	return same, inner
}

// present appends the non-nil schemas.
func present(list []*jsonschema.Schema, some ...*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range some {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}
