package endpoint

import (
	"strconv"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// object is a JSON object that grows by appending. Names are constants, or attribute names of
// [a-z0-9], so they are not escaped.
type object []byte

func newObject(capacity int) object { return append(make(object, 0, capacity), '{') }

func (o object) name(name string) object {
	if o[len(o)-1] != '{' {
		o = append(o, ',')
	}
	o = append(o, '"')
	o = append(o, name...)
	return append(o, '"', ':')
}

func (o object) str(name, value string) object { return sluice.AppendString(o.name(name), value) }

// opt adds a string unless it is empty.
func (o object) opt(name, value string) object {
	if value == "" {
		return o
	}
	return o.str(name, value)
}

func (o object) raw(name string, json []byte) object { return append(o.name(name), json...) }

func (o object) integer(name string, n int) object {
	return strconv.AppendInt(o.name(name), int64(n), 10)
}

// time adds a time unless it is zero.
func (o object) time(name string, t time.Time) object {
	if t.IsZero() {
		return o
	}
	o = append(o.name(name), '"')
	o = t.UTC().AppendFormat(o, time.RFC3339Nano)
	return append(o, '"')
}

func (o object) end() []byte { return append(o, '}') }
