// Package action performs the actions of instructions, which are scheduled events, appointments and
// watches. It publishes the event of an action with the current permissions of its creator, once
// per firing.
//
// The ID of a firing is the ID of its event. The caller that decides to fire first stores the
// firing, with everything that the ID depends on, and then performs it. After a crash in between,
// the next replica performs it again under the same ID, and the log stores the event once.
package action
