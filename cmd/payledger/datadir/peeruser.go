//go:build linux || darwin

package datadir

import "net"

// peerUser is the user of the process that connected, as the kernel knows it.
func peerUser(c *net.UnixConn) (uid uint32, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var unknown error
	err = raw.Control(func(fd uintptr) { uid, unknown = userOf(int(fd)) })
	return uid, err == nil && unknown == nil
}
