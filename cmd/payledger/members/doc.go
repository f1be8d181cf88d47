// Package members is how three data directories become the nodes of one cluster, and
// how one of them takes part while it is served.
//
// # The members
//
// A cluster has three members, which are named when it is made and stay. Everything
// a node needs to know is in one file of its directory, cluster.json: the cluster's
// id, which is that of its LOG too, the members with their addresses, the node's own
// name, certificate and keys, and the certificate of the cluster's authority. The
// first node has the authority's key besides. The file is written once.
//
// # Who gets in
//
// Nodes talk over TLS 1.3, and both ends show a certificate that the cluster's own
// authority has signed; no other authority is trusted. Certificates do not expire:
// a clock that is wrong must not stop a cluster, and a thief of a node's file has its master
// key too.
//
// A node joins with a token from the first one. Invite listens on that node's address,
// as long as the token is valid and for one use; the token carries the address, the
// authority's fingerprint, by which the new node knows whom it speaks to, and a
// secret of which the inviting process keeps the hash alone. What a new node gets is
// its certificate, the keys and the log itself.
//
// Each node makes a key of its own with which it vouches for checkpoints (package
// nodewitness). The public half stands in its certificate, so that the authority says
// whose it is.
//
// datadir refuses to open the log of a directory with cluster.json for writing: only nodes
// together may add to it. So the log does not grow between Init and the moment at which all
// three nodes take part, and the first copies are equal.
//
// A node is served by one process. A copy of its directory that is served beside it is found,
// and one of the two processes ends: see announceEvery.
package members
