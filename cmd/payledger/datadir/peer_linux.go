package datadir

import "golang.org/x/sys/unix"

func userOf(socket int) (uid uint32, err error) {
	c, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return c.Uid, nil
}
