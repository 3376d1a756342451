package bundle_test

import "errors"

func mkfifo(string, uint32) error { return errors.ErrUnsupported }
