package natstest

// Main returns false: Processes is not supported on Windows.
func Main() bool { return false }
