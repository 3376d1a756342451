// Package bundle implements the format in which the changes of a namespace cross an air gap (S3-61
// to S3-74). It has the signed bundle, as one JSON document or as a directory of files, the keys
// that sign bundles, the receipts of importers, and the decision whether a mirror applies a bundle.
// It does no I/O except on the files of a directory.
//
// Both forms have the same [Header] and entries, and the same digest. Each bundle names the digest
// of the previous one, so bundles form a chain. No entry of a bundle can be read before its
// signature and all of its content are verified.
//
// The two forms:
//
//	document               directory
//	one JSON object        manifest.json         the header, the list of files, the signature
//	  the header           entries-00001.ndjson  one entry a line, canonical JSON
//	  "entries": [ … ]     entries-00002.ndjson  at most 8 MiB, or one entry
//	  "signature": "…"     data/<sha256>.png     content above 64 KiB, or not text
//	at most 64 MiB         SHA256SUMS            for people without Sluice
//
// A line of a file of entries, and an element of a document's list:
//
//	{"claims":[],"content":"{}","content_type":"application/json","entry_id":"e1","op":"write",
//	 "sequence":7,"source":"/shop","time":"2026-01-02T03:04:05Z","topic":"/orders/42","type":"t"}
//
// (the line break is not part of it). In a directory, a reader accepts exactly the bytes that a
// writer produces: members in this order, no white space, none unknown. In a document it accepts
// any unambiguous JSON with that canonical form. So no two parsers read one signed text
// differently.
//
// The chain, and the decision of [Judge] for a mirror whose watermark is 20:
//
//	Since    Through
//	  0 ───── 10 ───── 20 ───── 30        each names its predecessor's digest in Previous
//	  └ imported ┘     │  apply │
//	                   └────────┘
//	                         25 ───── 40  gap: changes 21 to 25 are missing
//	        5 ─────── 15                  fork: overlaps an imported bundle
//	                   20                 heartbeat: Since = Through, no link of the chain
//
// Values of this package have no locks. A writer and an Inbox are for one goroutine at a time;
// Trust and Known are never changed in place.
package bundle
