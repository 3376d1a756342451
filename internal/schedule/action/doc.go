// Package action performs the actions of instructions: the event of an action is published with
// its creator's current permissions, once per firing.
//
// A firing has an ID, which is the ID of its event. The caller that decides to fire first stores
// the firing, with everything that the ID depends on, and then has it performed: after a crash in
// between, it is performed again under the same ID, and the log stores the event once.
package action
