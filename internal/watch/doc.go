// Package watch evaluates watches: it detects when the events of a namespace meet a condition, and
// performs the resulting action (S2-42…46).
//
// An event on a path of a watch's pattern that its filter's types, sources and subjects choose is a reading of that
// path. The filter's labels and its expression are the condition, which holds for a path from a reading that meets it
// until one that does not. Everything is reckoned for each path by itself:
//
//	            reading meets it: fires                    … and each further one: edge nothing, level fires
//	not met ──────────────────────────▶ met ◀──┐
//	   ▲                                 │ └────┘
//	   └─────────────────────────────────┘
//	            reading does not meet it
//
// A path fires once in a cooldown; what is suppressed by it is told of. With a duration, an edge fires when the
// condition has held for so long, and a level on readings by which it has.
//
// A watch's clock is the log's: what counts is when events were stored, not when they are looked at. So a watch that
// was not served for a while decides what it would have decided. Only what would come too often, which is told of how much
// was held back, goes by the time of the day.
//
// State.Step is pure: an event, the time and what is remembered come in; what is to be done comes out. It is stored
// (compare-and-set), together with how far the watch has come and what is remembered, before it is done:
//
//	look ─▶ store place, memory, firings ─▶ publish the action's event ─▶ tell of it ─▶ forget the firings
//
// Whoever serves the watch after a crash finds the firings that were not forgotten, and does those again of which
// the log does not have the event. Two that serve the same watch for a moment store one after the other, and who comes
// second begins from what the first one stored.
package watch
