// Package announce knows the system events: what the server tells about itself, on which paths,
// and that telling it holds nothing up.
//
// An event is published after the state that it announces was stored, never before: whoever
// calls this package has stored it. What a caller of the API changed is published at once,
// within a short time. What the engine tells goes into a bounded queue; what does not fit is
// counted and logged. So a lost system event is possible, and a false one is not: the state
// itself, the attempts, the dead letters and the ledger are the truth.
package announce
