// The pipeline of a kernel's steps, as in roofline/pipeline.py, for a browser without Python; the tests compare them.
// A state holds seconds from the start of a step until HBM is free, the last write is done, later blocks are in.

// Times one step, in seconds from its start. Values for a copy that it does not make are meaningless.
function times(state, { ahead = 0, work, write = 0, alone = 0 }, { read_s, write_s }) {
  let free = state.free + ahead;
  const arrives = ahead ? free + read_s : 0, asked = state.coming.length ? state.coming[0] : arrives;
  let begins = asked;
  if (alone) {
    free = Math.max(free, begins) + alone;
    begins = free + read_s;
  }
  const done = begins + work, leaves = write ? Math.max(free, done) : done;
  if (write) free = leaves + write;
  const gone = write ? free + write_s : 0;
  return { arrives, alone: asked, begins, done, leaves, gone, ends: Math.max(done, state.written), free };
}

// Returns the state at the end of a step.
function after(state, t) {
  const left = (time) => Math.max(time - t.ends, 0);
  return { free: left(t.free), written: left(t.gone), coming: [...state.coming, t.arrives].slice(1).map(left) };
}

// Returns the state before the first step, after one more read is requested.
function asking(state, read, read_s) {
  const free = state.free + read;
  return { free, written: 0, coming: [...state.coming, read ? free + read_s : 0] };
}

// Returns when each step does what, in seconds from the first copy on; null for a copy that it does not make.
export function steps(work, reads, writes, alone, { read_s, write_s, buffers }) {
  const ahead = [...reads, ...Array(buffers - 1).fill(0)], copies = [], found = [];
  const none = { asked: null, flows: null, arrives: null };
  let state = { free: 0, written: 0, coming: [] }, clock = 0;
  for (const read of ahead.slice(0, buffers - 1)) {
    copies.push(read ? { asked: 0, flows: state.free + read_s, arrives: state.free + read + read_s } : none);
    state = asking(state, read, read_s);
  }
  work.forEach((each, n) => {
    const read = ahead[n + buffers - 1];
    const t = times(state, { ahead: read, work: each, write: writes[n], alone: alone[n] }, { read_s, write_s });
    copies.push(read ? { asked: clock, flows: clock + state.free + read_s, arrives: clock + t.arrives } : none);
    found.push({ ...copies[n], starts: clock, alone: alone[n] ? clock + t.alone : null, begins: clock + t.begins,
      done: clock + t.done, leaves: writes[n] ? clock + t.leaves : null, left: writes[n] ? clock + t.gone - write_s : null,
      gone: writes[n] ? clock + t.gone : null, ends: clock + t.ends });
    state = after(state, t);
    clock += t.ends;
  });
  return found;
}
