package natstest

// Main reports that this is no server of a Processes, which Windows does not have.
func Main() bool { return false }
