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
	ModuleFound    ModuleState = "found"    // it waits for its approval
	ModuleApproved ModuleState = "approved" // its programs run
	ModuleDisabled ModuleState = "disabled" // by an admin
	ModuleChanged  ModuleState = "changed"  // its files are not those that were approved
	ModuleInvalid  ModuleState = "invalid"  // it cannot be loaded (S4-32)
	ModuleMissing  ModuleState = "missing"  // it was approved, and is not on this server
	ModuleUnsafe   ModuleState = "unsafe"   // an event of it would have caused itself (S4-82); it is approved again, or not
)

// Module is a directory with programs that run on events (S4-29), as a server sees it.
type Module struct {
	Name   string      `json:"name"`
	State  ModuleState `json:"state"`
	Reason string      `json:"reason,omitempty"` // why its programs do not run
	// Digest of its files on this server; empty if it is invalid or missing.
	Digest   string          `json:"digest,omitempty"`
	Handlers []ModuleHandler `json:"handlers,omitempty"`
	// Files that differ from the approved ones.
	Changed []string `json:"changed,omitempty"`
	// It handles system events, so only root may approve it (S4-33).
	System bool `json:"system,omitempty"`

	Approved   string     `json:"approved,omitempty"` // digest
	ApprovedBy string     `json:"approved_by,omitempty"`
	ApprovedAt *time.Time `json:"approved_at,omitempty"`
	// What this server enforces on programs.
	Restrictions []string `json:"restrictions,omitempty"`

	// ID of the server that tells this, and of the one that serves the subscriptions of the module; empty: none does, or it is not known.
	Server   string `json:"server,omitempty"`
	ServedBy string `json:"served_by,omitempty"`
	// Its processes on the server that tells this, for each subscription of a program.
	Running []ModuleRun `json:"running,omitempty"`
}

// ModuleRun is the processes of a handler for one of its subscriptions, on one server.
type ModuleRun struct {
	Handler      string `json:"handler"`
	Subscription string `json:"subscription"`
	Processes    int    `json:"processes"`         // that run
	Ready        int    `json:"ready,omitempty"`   // of these: workers that take events
	Events       int    `json:"events"`            // with processes
	Waiting      int    `json:"waiting,omitempty"` // for a worker

	// Workers that ended by themselves, broke the rules or did not become ready, since the module has run here with these files.
	Crashes     int        `json:"crashes,omitempty"`
	LastCrash   string     `json:"last_crash,omitempty"` // why
	LastCrashAt *time.Time `json:"last_crash_at,omitempty"`
	// Before this time no worker is started, since one has crashed; nil: it is over.
	NextStart *time.Time `json:"next_start,omitempty"`
}

// ModuleList is the modules of a server.
type ModuleList struct {
	Host    *ModuleHost `json:"host,omitempty"` // nil: the server has no directories of modules
	Modules []Module    `json:"modules"`
}

// ModuleHost is how a server runs programs.
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
	// Of each namespace, in the same order.
	Subscriptions []string `json:"subscriptions"`
	// What it may publish in the namespace of the event that it handles; empty: nothing.
	Publish []Publishable `json:"publish,omitempty"`
	// Paths that it may read in that namespace; empty: nothing but its events.
	Read []Pattern `json:"read,omitempty"`
	// Its standard output is events that are published.
	PrintsEvents bool `json:"prints_events,omitempty"`
	// It may make connections.
	Network bool `json:"network,omitempty"`
}

// Publishable is events that a module's program may publish.
type Publishable struct {
	Pattern Pattern  `json:"pattern"`         // of the paths
	Types   []string `json:"types,omitempty"` // exact, or a prefix followed by ".*"; none: every type
}

// Covers reports whether an event is one of them.
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

// modulePrefix is the prefix of producers that are modules. No principal that holds a grant has it.
const modulePrefix = "module:"

// ModuleProducer returns the producer of the events of a module's programs (S4-80).
func ModuleProducer(name string) Principal { return Principal(modulePrefix + name) }

// ModuleOf returns the module that is a producer; false if it is none.
func ModuleOf(producer string) (name string, ok bool) {
	return strings.CutPrefix(producer, modulePrefix)
}
