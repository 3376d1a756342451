package sluice

import "time"

// KeyUse is what one of the server's own keys is for. A key has one use.
type KeyUse string

// The uses. What one use signs can never be passed off as what another does: the keys differ.
const (
	UseWebhook KeyUse = "webhook" // Ed25519: signs requests to endpoints, and is in the JWKS
	UseGrant   KeyUse = "grant"   // Ed25519: signs capability tokens, and is never in the JWKS
	UseStamp   KeyUse = "stamp"   // symmetric: stamps events that are trusted
	UseWake    KeyUse = "wake"    // symmetric: signs what a woken worker shows when it calls back
	UseFeed    KeyUse = "feed"    // symmetric: signs tickets, with which feeds are opened
)

// Symmetric reports whether a key of this use has no public half.
func (u KeyUse) Symmetric() bool { return u == UseStamp || u == UseWake || u == UseFeed }

// SigningKey is what may be known of one of the server's keys.
type SigningKey struct {
	ID        string     `json:"id"`
	Use       KeyUse     `json:"use"`
	CreatedAt time.Time  `json:"created_at"`
	RetiresAt *time.Time `json:"retires_at"` // when it is removed; nil: it is the newest of its use
}

// Sealing says with which keys the secrets in the store are sealed.
type Sealing struct {
	Keys  []SealingKey `json:"keys"`  // those that the server has, the newest first, then others
	Plain int          `json:"plain"` // records in which something is not sealed
}

// SealingKey is one key that seals secrets.
type SealingKey struct {
	ID      string `json:"id"`
	Known   bool   `json:"known"`   // the server has it
	Seals   bool   `json:"seals"`   // what is written now is sealed with it
	Records int    `json:"records"` // in which something is sealed with it
}
