package config

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ListenError adds to an error what to do if the address is in use. The flag is the command line's
// name of the setting.
func ListenError(setting, address, flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s is used by another process; choose another address with %s, where port 0 picks a free one", setting, address, flag)
	}
	return fmt.Errorf("%s: %w", setting, err)
}

// Prefixes parses the networks of a setting. Check has validated them.
func Prefixes(cidrs []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	var errs []error
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		all, errs = append(all, prefix), append(errs, err)
	}
	return all, errors.Join(errs...)
}
