package datadir

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUser is the user of the process that connected, as the kernel knows it.
func peerUser(c *net.UnixConn) (uid uint32, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err == nil {
			uid, ok = cred.Uid, true
		}
	})
	return uid, ok && err == nil
}
