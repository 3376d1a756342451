package sluice

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// DefaultNamespace exists from the first start and cannot be deleted.
const DefaultNamespace = "default"

// Namespace is a boundary of tenancy, access and retention. Zero values mean the server's defaults.
type Namespace struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Retention   Retention `json:"retention"`
	DedupWindow Duration  `json:"dedup_window"`
	Quota       Quota     `json:"quota"`
	// Label is stored with the permissions, too, by which access is decided.
	Label     *Label    `json:"label,omitempty"`
	Catalogue Catalogue `json:"catalogue"` // "": open
	Revision  uint64    `json:"revision"`
	CreatedAt time.Time `json:"created_at"`
	Usage     *Usage    `json:"usage,omitempty"` // only in responses
	// Inherited names the settings of which a response has the server's default, sorted, such as
	// "retention.max_age". It is only in responses.
	Inherited []string `json:"inherited,omitempty"`
}

// Unset returns the names of the settings that the server's defaults replace, sorted.
func (ns *Namespace) Unset() []string {
	defaults := ns.defaults()
	maps.DeleteFunc(defaults, func(_ string, setting any) bool { return !reflect.ValueOf(setting).Elem().IsZero() })
	return slices.Sorted(maps.Keys(defaults))
}

// Own returns the namespace of a response without the settings that it inherits: a request with
// them would make them its own.
func (ns *Namespace) Own() Namespace {
	own := *ns
	defaults := own.defaults()
	for _, name := range ns.Inherited {
		if setting, known := defaults[name]; known {
			reflect.ValueOf(setting).Elem().SetZero()
		}
	}
	own.Inherited = nil
	return own
}

// defaults returns pointers to the settings for which the server has a default, by name.
func (ns *Namespace) defaults() map[string]any {
	return map[string]any{
		"catalogue":               &ns.Catalogue,
		"dedup_window":            &ns.DedupWindow,
		"quota.burst":             &ns.Quota.Burst,
		"quota.bytes_per_second":  &ns.Quota.BytesPerSecond,
		"quota.events_per_second": &ns.Quota.EventsPerSecond,
		"retention.max_age":       &ns.Retention.MaxAge,
		"retention.max_bytes":     &ns.Retention.MaxBytes,
	}
}

// Retention limits a namespace's log; the oldest events are removed first.
type Retention struct {
	MaxAge   Duration `json:"max_age"`   // 0: the default, a week; -1s: unlimited
	MaxBytes int64    `json:"max_bytes"` // 0: the default; -1: unlimited
}

// Quota limits what the HTTP API accepts for a namespace. Zero means the server's default, -1 no
// limit.
type Quota struct {
	EventsPerSecond float64 `json:"events_per_second"`
	Burst           int     `json:"burst"`            // number of events at once; 0: the number per second
	BytesPerSecond  int64   `json:"bytes_per_second"` // bytes of request bodies; also the burst
}

// InForce returns the quota with the server's defaults applied.
func (q Quota) InForce(defaults Quota) Quota {
	if q.EventsPerSecond == 0 {
		q.EventsPerSecond, q.Burst = defaults.EventsPerSecond, cmp.Or(q.Burst, defaults.Burst)
	}
	if q.EventsPerSecond > 0 {
		q.Burst = cmp.Or(q.Burst, int(math.Ceil(q.EventsPerSecond)))
	}
	q.BytesPerSecond = cmp.Or(q.BytesPerSecond, defaults.BytesPerSecond)
	return q
}

// maxPerSecond is above any realistic rate.
const maxPerSecond = 1 << 30

// Check returns an error (InvalidRequest) unless the quota is valid.
func (q Quota) Check() error {
	switch {
	case q.EventsPerSecond > maxPerSecond || q.BytesPerSecond > maxPerSecond || q.Burst > maxPerSecond:
		return Errorf(InvalidRequest, "quota: use numbers up to %d, or -1 for unlimited", maxPerSecond).With("field", "quota")
	case q.EventsPerSecond < 0 && q.EventsPerSecond != -1:
		return Errorf(InvalidRequest, "quota.events_per_second %v: use a number, 0 for the default or -1 for unlimited", q.EventsPerSecond).With("field", "quota.events_per_second")
	case q.BytesPerSecond < -1:
		return Errorf(InvalidRequest, "quota.bytes_per_second %d: use a number, 0 for the default or -1 for unlimited", q.BytesPerSecond).With("field", "quota.bytes_per_second")
	case q.Burst < 0:
		return Errorf(InvalidRequest, "quota.burst %d: use at least 1, or 0 for the number per second", q.Burst).With("field", "quota.burst")
	}
	return nil
}

// Usage is the current content of a namespace's log.
type Usage struct {
	Events   uint64 `json:"events"`
	Bytes    uint64 `json:"bytes"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
}

// CheckNamespaceName returns an error (InvalidRequest) unless name is 1 to 63 characters of a–z,
// 0–9, "_" and "-", starting with a letter or digit, because it is a subject token and part of a
// stream's name.
func CheckNamespaceName(name string) error {
	ok := name != "" && len(name) <= 63 && name[0] != '-' && name[0] != '_' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
	if !ok {
		return Errorf(InvalidRequest, "namespace %q: use 1 to 63 of a-z, 0-9, - and _, starting with a letter or digit", name).With("field", "namespace")
	}
	return nil
}
