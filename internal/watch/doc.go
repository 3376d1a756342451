// Package watch evaluates watches: it detects when the events of a namespace meet a condition, and
// performs the resulting action (S2-42…46).
//
// An event is a reading of its path if it matches a watch's pattern and the types, sources and
// subjects of the watch's filter. The labels and the expression of the filter are the condition.
// The condition holds for a path from a reading that meets it until a reading that does not. Each
// path is evaluated separately:
//
//	            reading meets it: fires                    … and each further one: edge nothing, level fires
//	not met ──────────────────────────▶ met ◀──┐
//	   ▲                                 │ └────┘
//	   └─────────────────────────────────┘
//	            reading does not meet it
//
// A path fires at most once in a cooldown; the watch reports suppressed firings. With a duration,
// an edge fires when the condition has held for that time, and a level fires on readings after that
// time.
//
// The time of a watch is the time at which events were stored, not the time of their evaluation. So
// a watch that was not running for a while catches up and makes the same decisions, also those of
// the rate limit. The wall clock only decides when reports of suppressed and throttled readings are
// due, and when a duration has passed without a further reading.
//
// State.Step does no I/O: it takes an event, changes the state in memory, and returns the due work.
// The runner stores the work by compare-and-set, together with the watch's position and state,
// before doing it:
//
//	look ─▶ store place, memory, firings ─▶ publish the action's event ─▶ announce it ─▶ remove the firings
//
// After a crash, the next owner of the watch finds the remaining firings, and repeats those whose
// event is not in the log. If two replicas run the same watch for a moment, only one of them can
// store; the other starts again from the stored state.
//
// A decision to fire is executed until its outcome is known, and the action's event is stored once.
// A decision is lost only with its record. It is counted as missed if its reading has left the log,
// or may no longer be read. Repetitions are recognized by these ids:
//
//	watch-<id>-<revision>-<seq>     the action's event; the firing's ID
//	fired-<firing>                  its announcement
//	missed-<firing>-<reason>        a report of suppressed firings; the first of them
//	throttled-<firing>              a report of throttled readings; the first of them
//	cancelled-watch-<id>-<revision> the end of the watch
package watch
