package appointment

import (
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the server's machine may have none

	cron "github.com/netresearch/go-cron"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// times is a cron schedule in the local time of a zone.
//
// Daylight saving time is handled as in cron(8). A schedule with fixed hours and minutes is due
// once for each time that it names. A local time that does not exist that day is due when the clock
// changes, and one that occurs twice is due at its first occurrence. A schedule for every hour or
// minute (a field that begins with *) continues in even steps.
type times struct {
	wall  cron.Schedule // computes with local times written as UTC
	zone  *time.Location
	steps bool
}

// timesOf returns the times of an expression of five fields. Code InvalidRequest.
func timesOf(expression, zone string) (times, error) {
	location, err := time.LoadLocation(zone)
	if err != nil {
		return times{}, sluice.Errorf(sluice.InvalidRequest, "time_zone %q is unknown: write one such as Europe/Berlin", zone).With("field", "time_zone")
	}
	fields := strings.Fields(expression)
	parser := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom)
	wall, err := parser.Parse(expression)
	if err != nil || len(fields) != 5 { // the parser would accept a time zone before the five fields
		return times{}, sluice.Errorf(sluice.InvalidRequest, "cron %q: write five fields, minute, hour, day of the month, month and day of the week, such as 30 8 * * 1-5", expression).With("field", "cron")
	}
	return times{wall, location, strings.HasPrefix(fields[0], "*") || strings.HasPrefix(fields[1], "*")}, nil
}

// after returns the first due time after at, and false if there is none within a few years.
func (t times) after(at time.Time) (time.Time, bool) {
	if t.steps {
		return t.step(at)
	}
	// Start a day earlier, because the offset of the zone may have changed in between.
	for wall := t.wall.Next(t.onWall(at).Add(-25 * time.Hour)); !wall.IsZero(); wall = t.wall.Next(wall) {
		if is := t.first(wall); is.After(at) {
			return is, true
		}
	}
	return time.Time{}, false
}

// onWall returns the local time at a moment, written as UTC.
func (t times) onWall(at time.Time) time.Time {
	at = at.In(t.zone)
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// first returns the first time at which the local clock shows wall, or is set past it.
func (t times) first(wall time.Time) time.Time {
	const far = 15 * time.Hour // more than the offset of any zone
	_, before := wall.Add(-far).In(t.zone).Zone()
	_, behind := wall.Add(far).In(t.zone).Zone()
	could := []time.Time{wall.Add(-time.Duration(before) * time.Second), wall.Add(-time.Duration(behind) * time.Second)}
	slices.SortFunc(could, time.Time.Compare)
	for _, is := range could {
		if t.onWall(is).Equal(wall) {
			return is
		}
	}
	set, _ := could[1].In(t.zone).ZoneBounds()
	return set.UTC()
}

// maxSteps limits the clock changes that step passes.
const maxSteps = 1000

// step is after for schedules in even steps. Between two clock changes, local time behaves like
// UTC.
func (t times) step(at time.Time) (time.Time, bool) {
	from := at
	for range maxSteps {
		wall := t.wall.Next(t.onWall(from))
		if wall.IsZero() {
			break
		}
		is := from.Add(wall.Sub(t.onWall(from)))
		_, set := from.In(t.zone).ZoneBounds()
		if set.IsZero() || is.Before(set) {
			return is.UTC(), true
		}
		if wall = t.onWall(set); t.wall.Next(wall.Add(-1)).Equal(wall) {
			return set.UTC(), true
		}
		from = set
	}
	return time.Time{}, false
}
