package sluice

import (
	"cmp"
	"strings"
	"time"
)

// ModuleState is the state of a module.
type ModuleState string

// The states. Only the programs of an approved module run.
const (
	ModuleFound    ModuleState = "found"    // it waits for approval
	ModuleApproved ModuleState = "approved" // its programs run
	ModuleDisabled ModuleState = "disabled" // by an admin
	ModuleChanged  ModuleState = "changed"  // its files differ from the approved ones
	ModuleInvalid  ModuleState = "invalid"  // it cannot be loaded (S4-32)
	ModuleMissing  ModuleState = "missing"  // it was approved, but is not on this server
	ModuleUnsafe   ModuleState = "unsafe"   // one of its events would have caused itself (S4-82); it needs a new approval
)

// Module is a directory with programs that run on events (S4-29), as a server sees it.
type Module struct {
	Name   string      `json:"name"`
	State  ModuleState `json:"state"`
	Reason string      `json:"reason,omitempty"` // why its programs do not run
	// Digest is the digest of its files on this server; empty if it is invalid or missing.
	Digest   string          `json:"digest,omitempty"`
	Handlers []ModuleHandler `json:"handlers,omitempty"`
	// Changed lists the files that differ from the approved ones.
	Changed []string `json:"changed,omitempty"`
	// System: it handles system events, so only root may approve it (S4-33).
	System bool `json:"system,omitempty"`

	Approved   string     `json:"approved,omitempty"` // digest
	ApprovedBy string     `json:"approved_by,omitempty"`
	ApprovedAt *time.Time `json:"approved_at,omitempty"`
	// Restrictions are the restrictions that this server enforces on programs.
	Restrictions []string `json:"restrictions,omitempty"`

	// Server is the ID of the server that returns this; ServedBy is the ID of the server that
	// serves the subscriptions of the module, empty if there is none or it is unknown.
	Server   string `json:"server,omitempty"`
	ServedBy string `json:"served_by,omitempty"`
	// Running lists its processes on the server that returns this, for each subscription of a
	// program.
	Running []ModuleRun `json:"running,omitempty"`
}

// ModuleRun describes the processes of a handler for one of its subscriptions, on one server.
type ModuleRun struct {
	Handler      string `json:"handler"`
	Subscription string `json:"subscription"`
	Processes    int    `json:"processes"`         // running processes
	Ready        int    `json:"ready,omitempty"`   // running workers that accept events
	Events       int    `json:"events"`            // events that processes are handling
	Waiting      int    `json:"waiting,omitempty"` // events that wait for a worker

	// Crashes is the number of workers that ended by themselves, broke the rules or did not become
	// ready, since the module has run here with these files.
	Crashes     int        `json:"crashes,omitempty"`
	LastCrash   string     `json:"last_crash,omitempty"` // why
	LastCrashAt *time.Time `json:"last_crash_at,omitempty"`
	// NextStart is the time before which no worker is started, because one has crashed; nil:
	// workers may start.
	NextStart *time.Time `json:"next_start,omitempty"`
}

// ModuleList holds the modules of a server.
type ModuleList struct {
	Host    *ModuleHost `json:"host,omitempty"` // nil: the server has no directories of modules
	Modules []Module    `json:"modules"`
}

// ModuleHost describes how a server runs programs.
type ModuleHost struct {
	User         string   `json:"user"`              // that programs run as
	Restrictions []string `json:"restrictions"`      // in force
	Missing      []string `json:"missing,omitempty"` // not in force here
	Problem      string   `json:"problem,omitempty"` // missing restrictions that matter, and the remedy
}

// String returns the restrictions in one line.
func (h *ModuleHost) String() string {
	text := "programs run as " + h.User + "; in force: " + cmp.Or(strings.Join(h.Restrictions, ", "), "nothing")
	if len(h.Missing) > 0 {
		text += "; missing: " + strings.Join(h.Missing, ", ")
	}
	return text
}

// ModuleHandler is one program of a module.
type ModuleHandler struct {
	ID         string   `json:"id"`
	EventType  string   `json:"event_type"`
	Program    string   `json:"program,omitempty"`
	Endpoint   string   `json:"endpoint,omitempty"` // name of the module's endpoint that gets the events, in place of a program
	URL        string   `json:"url,omitempty"`      // of the endpoint, its path and query hidden
	Mode       string   `json:"mode"`
	Pattern    Pattern  `json:"pattern"`
	Namespaces []string `json:"namespaces"`
	// Subscriptions has the subscription of each namespace, in the same order.
	Subscriptions []string `json:"subscriptions"`
	// Publish lists what it may publish in the namespace of the event that it handles; empty:
	// nothing.
	Publish []Publishable `json:"publish,omitempty"`
	// Read lists the paths that it may read in that namespace; empty: nothing but its events.
	Read []Pattern `json:"read,omitempty"`
	// PrintsEvents: the events that it prints on standard output are published.
	PrintsEvents bool `json:"prints_events,omitempty"`
	// Network: it may make connections.
	Network bool `json:"network,omitempty"`
}

// Publishable describes events that a module's program may publish.
type Publishable struct {
	Pattern Pattern  `json:"pattern"`         // pattern of the paths
	Types   []string `json:"types,omitempty"` // exact, or a prefix followed by ".*"; none: every type
}

// Covers reports whether the program may publish the event.
func (p Publishable) Covers(e *Event) bool {
	return p.Pattern.Match(e.Path) && (len(p.Types) == 0 || MatchType(p.Types, e.Type))
}

// String returns the pattern and the types.
func (p Publishable) String() string {
	return strings.TrimSpace(string(p.Pattern) + " " + strings.Join(p.Types, " "))
}

// Events of modules, at ModulePath in the default namespace.
const (
	TypeModuleEnabled  = "module.enabled"  // S4-34
	TypeModuleDisabled = "module.disabled" // S4-34
	TypeModuleChanged  = "module.changed"
	TypeModuleUnsafe   = "module.unsafe"
)

// ModulePath returns the path of system events about a module.
func ModulePath(name string) Path { return Path("/_sys/modules/" + name) }

// modulePrefix is the prefix of producers that are modules. No principal that can hold a grant has
// it.
const modulePrefix = "module:"

// ModuleProducer returns the producer of the events of a module's programs (S4-80).
func ModuleProducer(name string) Principal { return Principal(modulePrefix + name) }

// ModuleOf returns the name of the module that a producer is; false if it is not a module.
func ModuleOf(producer string) (name string, ok bool) {
	return strings.CutPrefix(producer, modulePrefix)
}
