package faulttest

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CPU returns the CPU time of the process.
func CPU(tb testing.TB) time.Duration {
	tb.Helper()
	self, err := syscall.GetCurrentProcess()
	require.NoError(tb, err)
	var begun, ended, kernel, user syscall.Filetime
	require.NoError(tb, syscall.GetProcessTimes(self, &begun, &ended, &kernel, &user))
	return ticks(kernel) + ticks(user)
}

func ticks(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
