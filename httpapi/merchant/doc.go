// Package merchant is the operations of merchants. Each operation is a method of API that takes a
// Caller and a typed input and returns a typed output or an error; its handler is a method of
// Handlers, which reads the request, calls the operation and writes the answer.
//
// A Caller comes from SignIn (credentials), Resume (a session of the account) or
// CallerOf (a request, of a key or of the operator). The first thing an operation
// does is Admit: the caller's key must have the scope, and the project's budget
// is taken from once. For a request Enter does this before the body is read,
// because 403 and 429 come before 415; the operation then finds it done. What is done for requests
// alone is in the handler.
package merchant
