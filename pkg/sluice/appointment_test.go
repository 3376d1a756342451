package sluice_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-37: what an appointment may be.
func TestAppointment_IsChecked(t *testing.T) {
	t.Parallel()
	second, hour := sluice.Duration(time.Second), sluice.Duration(time.Hour)
	cron := func(a *sluice.Appointment) { a.At, a.Cron, a.TimeZone = time.Time{}, "0 8 * * *", "Europe/Berlin" }
	for name, c := range map[string]struct {
		change func(*sluice.Appointment)
		says   string // "": it is taken
	}{
		"once":                     {func(*sluice.Appointment) {}, ""},
		"every second":             {func(a *sluice.Appointment) { a.Every = second }, ""},
		"by cron":                  {cron, ""},
		"in UTC":                   {func(a *sluice.Appointment) { cron(a); a.TimeZone = "" }, ""},
		"long cron":                {func(a *sluice.Appointment) { cron(a); a.Cron = strings.Repeat("*", 256) }, ""},
		"long time zone":           {func(a *sluice.Appointment) { cron(a); a.TimeZone = strings.Repeat("*", 256) }, ""},
		"with a grace":             {func(a *sluice.Appointment) { a.MissPolicy, a.Grace = sluice.MissCatchUpWithin, 1 }, ""},
		"dropped":                  {func(a *sluice.Appointment) { a.MissPolicy = sluice.MissDrop }, ""},
		"a month's notice":         {func(a *sluice.Appointment) { a.Notice = 720 * hour }, ""},
		"notice within every":      {func(a *sluice.Appointment) { a.Every, a.Notice = hour, hour-1 }, ""},
		"no id":                    {func(a *sluice.Appointment) { a.ID = "" }, "appointment id"},
		"no time":                  {func(a *sluice.Appointment) { a.At = time.Time{} }, "at is missing"},
		"cron and at":              {func(a *sluice.Appointment) { a.Cron = "0 8 * * *" }, "omit at and every"},
		"cron and every":           {func(a *sluice.Appointment) { cron(a); a.Every = hour }, "omit at and every"},
		"a time zone without cron": {func(a *sluice.Appointment) { a.TimeZone = "UTC" }, "time_zone requires cron"},
		"too long cron":            {func(a *sluice.Appointment) { cron(a); a.Cron = strings.Repeat("*", 257) }, "256 bytes"},
		"too long time zone":       {func(a *sluice.Appointment) { cron(a); a.TimeZone = strings.Repeat("*", 257) }, "256 bytes"},
		"grace for nothing":        {func(a *sluice.Appointment) { a.Grace = 1 }, "grace requires the miss_policy catch_up_within"},
		"no grace":                 {func(a *sluice.Appointment) { a.MissPolicy = sluice.MissCatchUpWithin }, "needs a grace"},
		"negative grace":           {func(a *sluice.Appointment) { a.MissPolicy, a.Grace = sluice.MissCatchUpWithin, -1 }, "needs a grace"},
		"too often":                {func(a *sluice.Appointment) { a.Every = second - 1 }, "use at least 1s"},
		"every negative":           {func(a *sluice.Appointment) { a.Every = -second }, "use at least 1s"},
		"notice as long as every":  {func(a *sluice.Appointment) { a.Every, a.Notice = hour, hour }, "use less"},
		"another policy":           {func(a *sluice.Appointment) { a.MissPolicy = "weep" }, "use drop, catch_up_within, catch_up"},
		"negative notice":          {func(a *sluice.Appointment) { a.Notice = -1 }, "notice is -1ns; use at least 0s"},
		"more than a month":        {func(a *sluice.Appointment) { a.Notice = 720*hour + 1 }, "use at most 720h0m0s"},
		"no action":                {func(a *sluice.Appointment) { a.Action = sluice.Action{} }, "action"},
	} {
		a := sluice.Appointment{ID: "a", Namespace: "acme", At: time.Unix(1, 0), Action: sluice.Action{Path: "/lamps/1", Type: "lamp.on"}}
		a.SetDefaults()
		require.Equal(t, sluice.MissCatchUp, a.MissPolicy)
		c.change(&a)
		err := a.Validate()
		if c.says == "" {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), name)
		require.ErrorContains(t, err, c.says, name)
	}
}

func TestAppointment_RepeatsByEveryOrCron(t *testing.T) {
	t.Parallel()
	for want, list := range map[bool][]sluice.Appointment{true: {{Every: 1}, {Cron: "* * * * *"}}, false: {{}}} {
		for _, a := range list {
			require.Equal(t, want, a.Repeats())
		}
	}
	a := sluice.Appointment{MissPolicy: sluice.MissDrop}
	a.SetDefaults()
	require.Equal(t, sluice.MissDrop, a.MissPolicy)
}
