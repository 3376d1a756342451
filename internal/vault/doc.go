// Package vault knows how what is secret lies in a store that others can read: sealed with a
// key that is not in it, and bound to the place it belongs to.
//
//	enc1.<key id>.<base64url of nonce and ciphertext>     AES-256-GCM, a random nonce each
//
// The additional data of a text is its place, so that a sealed text that is moved to another
// record, or to another field of its record, cannot be opened there. A ring seals with its first
// key and opens with any, so that keys can be replaced one after the other.
package vault
