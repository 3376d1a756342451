package sluice

import "time"

// KeyUse is the purpose of one of the server's own keys. A key has one use.
type KeyUse string

// The uses. A signature for one use is never valid for another, because the keys differ.
const (
	UseWebhook KeyUse = "webhook" // Ed25519: signs requests to endpoints, and is in the JWKS
	UseGrant   KeyUse = "grant"   // Ed25519: signs capability tokens, and is never in the JWKS
	UseStamp   KeyUse = "stamp"   // symmetric: stamps trusted events
	UseWake    KeyUse = "wake"    // symmetric: signs the callback tokens of woken workers
	UseFeed    KeyUse = "feed"    // symmetric: signs tickets of feeds
	UseBundle  KeyUse = "bundle"  // Ed25519: signs bundles and their receipts, and is in the sets of namespaces
)

// Symmetric reports whether keys of this use are symmetric, and so have no public key.
func (u KeyUse) Symmetric() bool { return u == UseStamp || u == UseWake || u == UseFeed }

// SigningKey is the public metadata of one of the server's keys.
type SigningKey struct {
	ID        string     `json:"id"`
	Use       KeyUse     `json:"use"`
	CreatedAt time.Time  `json:"created_at"`
	RetiresAt *time.Time `json:"retires_at"` // when it is removed; nil: the newest of its use
}

// Sealing lists the keys that seal the secrets in the store.
type Sealing struct {
	Keys  []SealingKey `json:"keys"`  // keys of the server, newest first, then unknown ones
	Plain int          `json:"plain"` // records with unsealed secrets
}

// SealingKey is a key that seals secrets.
type SealingKey struct {
	ID      string `json:"id"`
	Known   bool   `json:"known"`   // the server has the key
	Seals   bool   `json:"seals"`   // new secrets are sealed with it
	Records int    `json:"records"` // records with secrets sealed by it
}
