// Package schedules serves what is due later over HTTP: scheduled events and appointments.
package schedules
