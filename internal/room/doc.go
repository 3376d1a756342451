// Package room knows how much room a store has left, what is refused when it is little, and when a store that could not write
// is whole again. A part of the store is kept for records: who changed what, who may do what, how deliveries went. What is
// published never takes it, so that a full store can still be administered.
package room
