package signals

// fifo is a first-in first-out list.
type fifo[T any] []T

func (f *fifo[T]) put(v T) { *f = append(*f, v) }

func (f *fifo[T]) take() T {
	var none T
	v := (*f)[0]
	(*f)[0] = none // the array may stay
	if *f = (*f)[1:]; len(*f) == 0 {
		*f = nil
	}
	return v
}
