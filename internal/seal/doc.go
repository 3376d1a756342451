// Package seal encrypts secrets in a store that other parties can read. The key is not in the
// store, and the ciphertext is bound to the location of the secret.
//
//	enc1.<key id>.<base64url of nonce and ciphertext>     AES-256-GCM, a random nonce each
//
// The location of a text is the additional authenticated data, so that a sealed text that is moved
// to another record, or to another field of its record, cannot be opened there. A key ring seals
// with its first key and opens with any of its keys, so that keys can be replaced one at a time.
package seal
