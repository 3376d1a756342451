package catalogue

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	dialect = "https://json-schema.org/draft/2020-12/schema"
	itself  = "sluice:///schema" // a schema's URL, for its own references
)

// loader refuses to load other schemas: a schema may refer only to itself and to the definitions of
// the standard.
type loader struct{}

// Load returns an error.
func (loader) Load(string) (any, error) {
	return nil, errors.New("external references are not allowed; use $defs")
}

// schema is a compiled JSON Schema. It is safe for concurrent use. It keeps at most GOMAXPROCS
// checkers.
type schema struct {
	doc  any
	free chan *checker // unused checkers; further ones are dropped, and made again when needed
}

// checker is a compiled schema with a meter of its own, for one check at a time.
type checker struct {
	schema *jsonschema.Schema
	meter  *meter
}

// CheckSchema returns an error (InvalidRequest) unless a type has no schema, or a valid JSON Schema
// 2020-12 within the limits.
func CheckSchema(t *sluice.EventType) error {
	if len(t.Schema) == 0 {
		return nil
	}
	_, err := compile(t.Schema)
	return err
}

func compile(text []byte) (*schema, error) {
	doc, err := decode(text, maxLevels)
	if err != nil {
		return nil, badSchema(err)
	}
	switch root := doc.(type) {
	case bool:
	case map[string]any:
		if named, ok := root["$schema"]; ok && strings.TrimSuffix(fmt.Sprint(named), "#") != dialect {
			return nil, sluice.Errorf(sluice.InvalidRequest, "schema: this server supports the $schema %q, which may be omitted", dialect).With("field", "schema")
		}
	default:
		return nil, badSchema(errors.New("use an object, true or false"))
	}
	s := &schema{doc: doc, free: make(chan *checker, runtime.GOMAXPROCS(0))}
	first, err := s.checker()
	if err != nil {
		return nil, badSchema(err)
	}
	s.free <- first
	return s, nil
}

func badSchema(err error) error {
	return sluice.Errorf(sluice.InvalidRequest, "schema: %s", cut(reasonOf(err), 300)).With("field", "schema")
}

func (s *schema) checker() (*checker, error) {
	c := &checker{meter: &meter{left: budget}}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(loader{})
	compiler.UseRegexpEngine(c.meter.engine)
	err := compiler.AddResource(itself, s.doc)
	if err == nil {
		c.schema, err = compiler.Compile(itself)
	}
	if err == nil {
		err = c.meter.guard(c.schema)
	}
	return c, err
}

// check returns nil if the data matches the schema, else the place and the reason of a violation.
// An error means that the schema itself cannot be used.
func (s *schema) check(data []byte) (*fault, error) {
	v, bad := read(data)
	if bad != nil {
		return bad, nil
	}
	c, err := s.take()
	if err != nil {
		return nil, badSchema(err)
	}
	c.meter.left = budget
	err = c.schema.Validate(v)
	spent := c.meter.left < 0
	select {
	case s.free <- c:
	default:
	}
	switch {
	case spent:
		return &fault{reason: fmt.Sprintf("validation takes more than %d steps; simplify the schema or the data", budget)}, nil
	case err != nil:
		return faultOf(err), nil
	}
	return nil, nil //nolint:nilnil // there is no fault
}

// read returns the data's value, or a fault that is independent of the schema. Empty data is null.
func read(data []byte) (any, *fault) {
	if len(data) == 0 {
		return nil, nil
	}
	v, err := decode(data, maxDepth)
	if err != nil {
		return nil, &fault{reason: err.Error()}
	}
	return v, nil
}

// take returns an unused checker.
func (s *schema) take() (*checker, error) {
	select {
	case c := <-s.free:
		return c, nil
	default:
		return s.checker()
	}
}
