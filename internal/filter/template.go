package filter

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	// templateCEL is the expression of a preset that has none.
	templateCEL = "event.type + ' on ' + event.path"

	mostTemplates = 1024
	discordLimit  = 2000 // characters of a message, by the service's documentation
	textPlain     = "text/plain; charset=utf-8"
	inJSON        = "application/json"
)

// errLarge ends the encoding of a body that exceeds its limit.
var errLarge = errors.New("the body is too large")

// Template renders the body of a request from an event. It is safe for concurrent use.
type Template struct {
	body sluice.Body
	cel  *expression
}

// CompileTemplate returns the template of a body. Code InvalidRequest, with line and column, if its
// expression is invalid, or cannot yield a string where one is needed. The template keeps a copy of
// the body. Its content type is not checked here.
func CompileTemplate(b *sluice.Body) (*Template, error) {
	x, err := compileFor(cmp.Or(b.CEL, templateCEL), LiveLimit, kindOf(b))
	if err != nil {
		return nil, named(err)
	}
	return &Template{*b, x}, nil
}

// kindOf returns the type that a body's expression must yield; nil: any.
func kindOf(b *sluice.Body) *cel.Type {
	if b.Preset != "" || !b.IsJSON() {
		return cel.StringType
	}
	return nil
}

// named returns an error of compileFor with the field of a body in place of the field of a filter.
func named(err error) error {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		return err
	}
	const was, is = "filter.cel", "policy.body.cel"
	said := sluice.Errorf(e.Code, "%s", strings.ReplaceAll(e.Message, was, is))
	for key, value := range e.Details {
		if value == was {
			value = is
		}
		said = said.With(key, value)
	}
	return said
}

// Render returns the body of an event and its content type. An evaluation may cost LiveLimit.
// Codes: TooLarge if the body has more than limit bytes; Unprocessable if the expression fails on
// the event, for example because it reads a missing field or costs too much. An error has no body.
// Nothing is charged to an account.
func (t *Template) Render(e *sluice.Event, limit int64) (body []byte, contentType string, err error) {
	m := &meter{left: t.cel.most}
	value, _, err := t.cel.program.Eval(map[string]any{root: t.cel.attributes(e, nil), allowance: m})
	switch {
	case m.left < 0:
		return nil, "", unrendered("the expression costs more than %d on this event; simplify it", t.cel.most)
	case err != nil:
		return nil, "", unrendered("%.*s", maxMessage, err)
	}
	if kindOf(&t.body) != nil {
		text, ok := value.Value().(string)
		if !ok {
			return nil, "", unrendered("the expression yields %.*s on this event; it must yield a string", maxMessage, value.Type().TypeName())
		}
		body, contentType = t.ofText(text)
	} else {
		body, err = (&encoder{limit: limit}).append(nil, value, 0)
		contentType = cmp.Or(t.body.ContentType, inJSON)
	}
	if errors.Is(err, errLarge) || err == nil && int64(len(body)) > limit {
		return nil, "", sluice.Errorf(sluice.TooLarge, "policy.body.cel: the body would be larger than webhooks.max_body, %d bytes", limit)
	}
	return body, contentType, err
}

func unrendered(format string, args ...any) error {
	return sluice.Errorf(sluice.Unprocessable, "policy.body.cel: "+format, args...)
}

// ofText returns the body for a text. For chat services it neutralizes mentions and links whose
// text hides their target. A Discord message is cut to discordLimit; others are not.
func (t *Template) ofText(text string) (body []byte, contentType string) {
	switch t.body.Preset {
	case sluice.BodySlack:
		text = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
		return append(sluice.AppendString([]byte(`{"text":`), text), '}'), inJSON
	case sluice.BodyDiscord:
		body = sluice.AppendString([]byte(`{"content":`), firstRunes(text, discordLimit))
		return append(body, `,"allowed_mentions":{"parse":[]}}`...), inJSON
	}
	return []byte(strings.ToValidUTF8(text, "\uFFFD")), cmp.Or(t.body.ContentType, textPlain)
}

// firstRunes returns the text, cut to most characters; the last one is then an ellipsis.
func firstRunes(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return string(runes[:most-1]) + "…"
}

// encoder writes values of CEL as JSON. Integers keep all their digits; the members of objects are
// sorted.
type encoder struct{ limit int64 }

// mostNested limits the depth of the JSON: encoding/json decodes none that is deeper.
const mostNested = 10_000

func (c *encoder) append(b []byte, v ref.Val, depth int) ([]byte, error) {
	if int64(len(b)) > c.limit {
		return nil, errLarge
	}
	if depth > mostNested {
		return nil, unrendered("the value is nested too deep")
	}
	switch v := v.(type) {
	case types.Null:
		return append(b, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(b, bool(v)), nil
	case types.String:
		return sluice.AppendString(b, string(v)), nil
	case types.Int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(b, uint64(v), 10), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, unrendered("the number %v has no JSON", float64(v))
		}
		number, err := json.Marshal(float64(v))
		return append(b, number...), err
	case types.Bytes:
		return sluice.AppendString(b, base64.StdEncoding.EncodeToString(v)), nil
	case types.Timestamp:
		return sluice.AppendString(b, v.UTC().Format(time.RFC3339Nano)), nil
	case types.Duration:
		return sluice.AppendString(b, v.String()), nil
	case traits.Mapper:
		return c.object(b, v, depth)
	case traits.Lister:
		return c.list(b, v, depth)
	}
	return nil, unrendered("a value of the type %.*s has no JSON", maxMessage, v.Type().TypeName())
}

func (c *encoder) list(b []byte, v traits.Lister, depth int) (_ []byte, err error) {
	b = append(b, '[')
	for it, n := v.Iterator(), 0; it.HasNext() == types.True; n++ {
		if n > 0 {
			b = append(b, ',')
		}
		if b, err = c.append(b, it.Next(), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func (c *encoder) object(b []byte, v traits.Mapper, depth int) (_ []byte, err error) {
	members := map[string]ref.Val{}
	names := []string{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name := fmt.Sprint(key.Value())
		if _, twice := members[name]; twice {
			return nil, unrendered("the name %q is twice in one object", name)
		}
		members[name], names = v.Get(key), append(names, name)
	}
	slices.Sort(names)
	b = append(b, '{')
	for n, name := range names {
		if n > 0 {
			b = append(b, ',')
		}
		b = append(sluice.AppendString(b, name), ':')
		if b, err = c.append(b, members[name], depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// Templates renders bodies, and caches the recently used templates. Its zero value is ready. It is
// safe for concurrent use. At most mostTemplates are kept. An invalid body is compiled again on
// every call.
type Templates struct {
	mu     sync.Mutex
	recent *lru.LRU[sluice.Body, *Template]
}

// Render is Template.Render with the template of a body, compiled if it is not cached.
func (t *Templates) Render(b *sluice.Body, e *sluice.Event, limit int64) (body []byte, contentType string, err error) {
	template, err := t.of(b)
	if err != nil {
		return nil, "", err
	}
	return template.Render(e, limit)
}

func (t *Templates) of(b *sluice.Body) (*Template, error) {
	t.mu.Lock()
	if t.recent != nil {
		if found, ok := t.recent.Get(*b); ok {
			t.mu.Unlock()
			return found, nil
		}
	}
	t.mu.Unlock()
	made, err := CompileTemplate(b) // concurrent callers may compile it twice, which does no harm
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.recent == nil {
		if t.recent, err = lru.NewLRU[sluice.Body, *Template](mostTemplates, nil); err != nil {
			return nil, fmt.Errorf("cache of templates: %w", err)
		}
	}
	t.recent.Add(*b, made)
	return made, nil
}
