package sluice

import "time"

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
}

// ModuleHandler is one program of a module.
type ModuleHandler struct {
	ID         string   `json:"id"`
	EventType  string   `json:"event_type"`
	Program    string   `json:"program"`
	Mode       string   `json:"mode"`
	Pattern    Pattern  `json:"pattern"`
	Namespaces []string `json:"namespaces"`
	// Of each namespace, in the same order.
	Subscriptions []string `json:"subscriptions"`
}

// Events of modules, at ModulePath in the default namespace.
const (
	TypeModuleEnabled  = "module.enabled"  // S4-34
	TypeModuleDisabled = "module.disabled" // S4-34
	TypeModuleChanged  = "module.changed"
)

// ModulePath returns the path of system events about a module.
func ModulePath(name string) Path { return Path("/_sys/modules/" + name) }
