// Package watch evaluates watches: it detects when the events of a namespace meet a condition, and
// performs the resulting action (S2-42…46).
//
// An event is a reading of its path if it matches a watch's pattern and its filter's types, sources
// and subjects. The filter's labels and its expression are the condition, which holds for a path
// from a reading that meets it until one that does not. Each path is evaluated separately:
//
//	            reading meets it: fires                    … and each further one: edge nothing, level fires
//	not met ──────────────────────────▶ met ◀──┐
//	   ▲                                 │ └────┘
//	   └─────────────────────────────────┘
//	            reading does not meet it
//
// A path fires once in a cooldown; suppressed firings are reported. With a duration, an edge fires
// when the condition has held for that time, and a level fires on readings after that time.
//
// A watch's clock is the log's: the time at which events were stored counts, not the time of their
// evaluation. So a watch that was not running for a while catches up and makes the same decisions.
// Only the rate limit, with its count of throttled readings, uses the time of day.
//
// State.Step is pure: its arguments are an event, the time and the state; its result is the due
// work. The work is stored (compare-and-set), together with the watch's position and its state,
// before it is done:
//
//	look ─▶ store place, memory, firings ─▶ publish the action's event ─▶ tell of it ─▶ forget the firings
//
// After a crash, the next owner of the watch finds the remaining firings, and repeats those without
// an event in the log. If two replicas run the same watch for a moment, one stores after the other,
// and the second starts from the state that the first one stored.
package watch
