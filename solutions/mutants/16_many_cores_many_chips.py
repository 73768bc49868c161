# Wrong answers to the exercises of lesson 16: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="16.1" name="the block that is shared" judge="exercise" says="all\\s+steps\\s+add\\s+to\\s+the\\s+same"
# -    "row_sums": "only i",
# +    "row_sums": "i and j",


# %% answer="16.1" name="half a total for each core" judge="exercise" says="how\\s+would\\s+the\\s+sums\\s+meet"
# -    "total": "neither",
# +    "total": "only i",


# %% answer="16.1" name="blocks of their own are enough" judge="exercise" says="first_ref\\s+is\\s+filled\\s+by"
# -    "minus_first": "only i",
# +    "minus_first": "i and j",


# %% answer="16.1" name="as above" judge="exercise" says="Step\\s+.i,\\s+j.\\s+reads\\s+what\\s+step"
# -    "largest_above": "only j",
# +    "largest_above": "only i",


# %% answer="16.1" name="leading axes only" judge="exercise" says="That\\s+is\\s+allowed,\\s+but\\s+it\\s+is\\s+not\\s+all"
# -    "scaled": "i and j",
# +    "scaled": "only i",


# %% answer="16.2" name="signals itself" judge="protocol" says="nothing\\s+ensures\\s+that\\s+device\\s+1\\s+has\\s+entered"
# -    pl.semaphore_signal(barrier, 1, device_id={"d": partner})
# +    pl.semaphore_signal(barrier, 1)


# %% answer="16.2" name="the lesson's barrier" judge="protocol" says="nothing\\s+ensures\\s+that|never\\s+ends"
# -    pl.semaphore_signal(barrier, 1, device_id={"d": partner})
# -    pl.semaphore_wait(barrier, 1)
# +    pl.semaphore_signal(barrier, 1, device_id={"d": partner})
# +    pl.semaphore_wait(barrier, 2)


# %% answer="16.2" name="always to the right" judge="protocol" says="comes\\s+from\\s+device\\s+3,\\s+none\\s+from\\s+device\\s+1"
# -    partner = me + 1 - 2 * lax.rem(me, 2)
# +    partner = lax.rem(me + 1, 4)


# %% answer="16.2" name="waits for what arrives" judge="protocol" says="may\\s+have\\s+left\\s+the\\s+kernel"
# -    copy.wait()
# +    copy.wait_recv()


# %% answer="16.2" name="waits for what it sends" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -    copy.wait()
# +    copy.wait_send()


# %% answer="16.2" name="the partner on the other side" judge="numbers" says="what\\s+device\\s+2\\s+should\\s+have"
# -    partner = me + 1 - 2 * lax.rem(me, 2)
# +    partner = lax.axis_size("d") - 1 - me


# %% answer="16.2" name="waits before it signals" judge="protocol" says="send\\s+every\\s+signal,\\s+before\\s+you\\s+wait"
# -    pl.semaphore_signal(barrier, 1, device_id={"d": partner})
# -    pl.semaphore_wait(barrier, 1)
# +    pl.semaphore_wait(barrier, 1)
# +    pl.semaphore_signal(barrier, 1, device_id={"d": partner})


# %% answer="16.3" name="one receive semaphore" judge="protocol" says="counts\\s+bytes\\s+but\\s+not\\s+whose"
# -                part, part, send_sem, recv_sem.at[step], device_id={"d": left}
# +                part, part, send_sem, recv_sem.at[0], device_id={"d": left}


# %% answer="16.3" name="passes on its own rows" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -            part = o_ref.at[pl.ds(lax.rem(me + step, n) * rows, rows)]
# +            part = o_ref.at[pl.ds(me * rows, rows)]


# %% answer="16.3" name="the order of the other direction" judge="protocol" says="waited\\s+by\\s+then\\s+on\\s+recv_sem(?s:.)*check\\s+the\\s+indices"
# -            part = o_ref.at[pl.ds(lax.rem(me + step, n) * rows, rows)]
# +            part = o_ref.at[pl.ds(lax.rem(me + n - step, n) * rows, rows)]


# %% answer="16.3" name="nobody waits to enter" judge="protocol" says="has\\s+entered\\s+the\\s+kernel\\s+by\\s+then"
# -        enter_together()


# %% answer="16.3" name="its own rows are not there yet" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -        own.wait()

# -            copy.wait()
# +            copy.wait()
# +        own.wait()


# %% answer="16.3" name="to the right" judge="exercise" says="its\\s+left\\s+neighbor\\s+is\\s+device\\s+3"
# -        me, _, left = neighbors()
# +        me, right, _ = neighbors()

# -            part = o_ref.at[pl.ds(lax.rem(me + step, n) * rows, rows)]
# +            part = o_ref.at[pl.ds(lax.rem(me + n - step, n) * rows, rows)]

# -                part, part, send_sem, recv_sem.at[step], device_id={"d": left}
# +                part, part, send_sem, recv_sem.at[step], device_id={"d": right}


# %% answer="16.3" name="one step more" judge="exercise" says="neighbor\\s+lacks\\s+only\\s+12,288"
# -        for step in range(n - 1):
# +        for step in range(n):

# -        scratch_shapes=[DMA, DMA, DMA((n - 1,))],
# +        scratch_shapes=[DMA, DMA, DMA((n,))],


# %% answer="16.3" name="the ring is not closed" judge="protocol" says="to\\s+device\\s+-1(?s:.)*with\\s+a\\s+remainder"
# -                part, part, send_sem, recv_sem.at[step], device_id={"d": left}
# +                part, part, send_sem, recv_sem.at[step], device_id={"d": me - 1}


# %% answer="16.3" name="the library" judge="exercise" says="runs\\s+the\\s+library's\\s+kernel"
def gathered(x):
    from course_lib.kernels import collectives

    return collectives.all_gather(x, "d")


# %% answer="16.4" name="as it was" judge="protocol" says="nothing\\s+ensures\\s+that\\s+device"
# -    for device in (left, right):
# -        pl.semaphore_signal(barrier, 1, device_id={"d": device})
# -    pl.semaphore_wait(barrier, 2)
# +    for _ in range(2):
# +        pl.semaphore_signal(barrier, 1, device_id={"d": right})
# +    pl.semaphore_wait(barrier, 2)


# %% answer="16.4" name="the other neighbor twice" judge="protocol" says="nothing\\s+ensures\\s+that\\s+device"
# -    for device in (left, right):
# +    for device in (left, left):


# %% answer="16.4" name="waits for one" judge="protocol" says="nothing\\s+ensures\\s+that\\s+device"
# -    pl.semaphore_wait(barrier, 2)
# +    pl.semaphore_wait(barrier, 1)


# %% answer="16.4" name="waits for three" judge="protocol" says="never\\s+ends:\\s+2\\s+signals\\s+arrive"
# -    pl.semaphore_wait(barrier, 2)
# +    pl.semaphore_wait(barrier, 3)


# %% answer="16.4" name="the halves the other way round" judge="numbers" says="which\\s+copies\\s+bring\\s+them\\s+here"
# -    for way, device in enumerate((right, left)):
# +    for way, device in enumerate((left, right)):


# %% answer="16.5" name="as it was" judge="protocol" says="4\\s+copies\\s+arrive\\s+on\\s+recv_sem.0."
# -        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[quarter]
# +        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[0]


# %% answer="16.5" name="two in turn" judge="protocol" says="2\\s+copies\\s+arrive\\s+on\\s+recv_sem.0."
# -        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[quarter]
# +        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[quarter % 2]


# %% answer="16.5" name="waits at the wrong end" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -        copy(quarter).wait_recv()
# +        copy(quarter).wait_send()

# -        copy(quarter).wait_send()
# +        copy(quarter).wait_recv()


# %% answer="16.5" name="sent and forgotten" judge="protocol" says="may\\s+have\\s+left\\s+the\\s+kernel"
# -    for quarter in range(4):
# -        copy(quarter).wait_send()


# %% answer="16.5" name="waits for the next quarter" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -        copy(quarter).wait_recv()
# +        copy((quarter + 1) % 4).wait_recv()


# %% answer="16.5" name="adds when all have arrived" judge="exercise" says="stores\\s+nothing\\s+until"
# -        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[quarter]
# +        part, arrives = pl.ds(quarter * rows, rows), recv_sem.at[0]

# -        part = pl.ds(quarter * rows, rows)
# -        o_ref[part] = x_ref[part] + in_ref[part]
# +    o_ref[...] = x_ref[...] + in_ref[...]


# %% answer="16.6" name="as it was" judge="protocol" says="scaled_ref"
# -        copy.wait()
# +        copy.wait_recv()


# %% answer="16.6" name="the sends at the end" judge="protocol" says="scaled_ref"
# -        copy.wait()
# -        o_ref[...] += in_ref[way]
# +        copy.wait_recv()
# +        o_ref[...] += in_ref[way]
# +    copy.wait_send()
# +    copy.wait_send()


# %% answer="16.6" name="only the last is awaited" judge="protocol" says="scaled_ref"
# -        copy.wait()
# -        o_ref[...] += in_ref[way]
# +        copy.wait_recv()
# +        o_ref[...] += in_ref[way]
# +    copy.wait_send()


# %% answer="16.6" name="the other end" judge="protocol" says="in_ref"
# -        copy.wait()
# +        copy.wait_send()


# %% answer="16.6" name="weights the other way round" judge="numbers" says="it\\s+should\\s+be"
# -    for way, (device, weight) in enumerate(((right, 0.25), (left, 0.125))):
# +    for way, (device, weight) in enumerate(((left, 0.25), (right, 0.125))):


# %% answer="16.7" name="one way after the other" judge="exercise" says="at\\s+most\\s+155.4\\s+us\\s+pass"
# -            for copy in copies:
# -                copy.start()
# -            for copy in copies:
# -                copy.wait()
# +            for copy in copies:
# +                copy.start()
# +                copy.wait()


# %% answer="16.7" name="both halves to the right" judge="exercise" says="directions\\s+carry\\s+nothing"
# -            for way, (whose, device) in enumerate(((n - step, right), (step, left))):
# +            for way, (whose, device) in enumerate(((n - step, right), (n - step, right))):


# %% answer="16.7" name="the same half both ways" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -                start = lax.rem(me + whose, n) * rows + way * half
# +                start = lax.rem(me + whose, n) * rows


# %% answer="16.7" name="one receive semaphore each way" judge="protocol" says="counts\\s+bytes\\s+but\\s+not\\s+whose"
# -                sems = send_sem.at[way], recv_sem.at[way, step]
# +                sems = send_sem.at[way], recv_sem.at[way, 0]


# %% answer="16.7" name="to the left in the order to the right" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -            for way, (whose, device) in enumerate(((n - step, right), (step, left))):
# +            for way, (whose, device) in enumerate(((n - step, right), (n - step, left))):


# %% answer="16.7" name="the library" judge="exercise" says="runs\\s+the\\s+library's\\s+kernel"
def gathered_both_ways(x):
    from course_lib.kernels import collectives

    return collectives.kernel.launch(False, x, axis_name="d", sizes=None)


# %% answer="16.8" name="in the order of the numbers" judge="exercise" says="order\\s+of\\s+the\\s+numbers"
# -    return place if place < columns else 3 * columns - 1 - place
# +    return place


# %% answer="16.8" name="one too far" judge="exercise" says="stands\\s+below\\s+the\\s+last\\s+one"
# -    return place if place < columns else 3 * columns - 1 - place
# +    return place if place < columns else 3 * columns - place


# %% answer="16.8" name="back along the first row" judge="exercise" says="already\\s+visited"
# -    return place if place < columns else 3 * columns - 1 - place
# +    return place if place < columns else 2 * columns - 1 - place


# %% answer="16.8" name="from the end" judge="exercise" says="Which\\s+chip\\s+has\\s+place\\s+0"
# -    return place if place < columns else 3 * columns - 1 - place
# +    return 2 * columns - 1 - place


# %% answer="16.8" name="for four columns" judge="exercise" says="the chip"
# -    return place if place < columns else 3 * columns - 1 - place
# +    return place if place < 4 else 11 - place


# %% answer="16.8" name="down first" judge="exercise" says="goes\\s+down\\s+from\\s+chip\\s+0"
# -    return place if place < columns else 3 * columns - 1 - place
# +    down = columns - 1 + place if place <= columns else 2 * columns - place
# +    return down if place else 0


# %% answer="16.8" name="from row to row" judge="exercise" says="jumps\\s+to\\s+the\\s+other\\s+row"
# -    return place if place < columns else 3 * columns - 1 - place
# +    return place % 2 * columns + place // 2


# %% answer="16.9" name="one buffer each way" judge="protocol" says="tell\\s+its\\s+sender"
# -                    in_ref.at[way, step % 2],
# +                    in_ref.at[way, 0],

# -                    recv_sem.at[way, step % 2],
# +                    recv_sem.at[way, 0],

# -                sum_ref[way] = in_ref[way, step % 2] + mine(way, step + 1)
# +                sum_ref[way] = in_ref[way, 0] + mine(way, step + 1)


# %% answer="16.9" name="written while it is sent" judge="protocol" says="sum_ref"
# -                copies[way].wait()
# -                sum_ref[way] = in_ref[way, step % 2] + mine(way, step + 1)
# +                copies[way].wait_recv()
# +                sum_ref[way] = in_ref[way, step % 2] + mine(way, step + 1)
# +                copies[way].wait_send()


# %% answer="16.9" name="begins with its own rows" judge="numbers" says="it\\s+should\\s+be"
# -            whose = lax.rem(me + (step + 1) * shift, n)
# +            whose = lax.rem(me + step * shift, n)


# %% answer="16.9" name="the ways do not wait for each other" judge="protocol" says="tell\\s+its\\s+sender"
# -        for step in range(n - 1):
# -            copies = []
# -            for way, (device, _) in enumerate(ways):
# +        for way, (device, _) in enumerate(ways):
# +            for step in range(n - 1):

# -                copies.append(copy)
# -            for way in (0, 1):
# -                copies[way].wait()
# +                copy.wait()


# %% answer="16.9" name="one way after the other" judge="exercise" says="at\\s+most\\s+169.6\\s+us\\s+pass"
# -                copy.start()
# -                copies.append(copy)
# +                copy.start()
# +                copy.wait()
# +                copies.append(copy)

# -                copies[way].wait()


# %% answer="16.9" name="a buffer for each step" judge="exercise" says="two\\s+receive\\s+buffers\\s+have\\s+8,192"
# -                    in_ref.at[way, step % 2],
# +                    in_ref.at[way, step],

# -                    recv_sem.at[way, step % 2],
# +                    recv_sem.at[way, step],

# -                sum_ref[way] = in_ref[way, step % 2] + mine(way, step + 1)
# +                sum_ref[way] = in_ref[way, step] + mine(way, step + 1)

# -            pltpu.VMEM((2, 2, half, columns), x.dtype),
# -            DMA((2,)),
# -            DMA((2, 2)),
# +            pltpu.VMEM((2, n - 1, half, columns), x.dtype),
# +            DMA((2,)),
# +            DMA((2, n - 1)),


# %% answer="16.10" name="one way" judge="exercise" says="above par"
def all_gather_matmul(x, w):
    n, (rows, depth), columns = lax.axis_size("d"), x.shape, w.shape[1]

    def kernel(x_ref, w_ref, o_ref, in_ref, send_sem, recv_sem):
        me, right, _ = neighbors()
        enter_together()
        for step in range(n):
            part = x_ref if step == 0 else in_ref.at[step - 1]
            if step < n - 1:
                sems = send_sem.at[step], recv_sem.at[step]
                copy = pltpu.make_async_remote_copy(
                    part, in_ref.at[step], *sems, device_id={"d": right}
                )
                copy.start()
            o_ref[pl.ds(lax.rem(me + n - step, n) * rows, rows)] = jnp.dot(
                part[...], w_ref[...], preferred_element_type=jnp.float32
            )
            if step < n - 1:
                copy.wait()

    return pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((n * rows, columns), jnp.float32),
        in_specs=[VMEM, VMEM],
        out_specs=VMEM,
        scratch_shapes=[
            pltpu.VMEM((n - 1, rows, depth), x.dtype),
            DMA((n - 1,)),
            DMA((n - 1,)),
        ],
        compiler_params=COLLECTIVE,
    )(x, w)


# %% answer="16.10" name="the kernel that is given" judge="exercise" says="above par"
all_gather_matmul = gather_then_multiply


# %% answer="16.10" name="multiplies before it passes on" judge="exercise" says="above par"
# -        for step in range(n):
# -            for way in (0, 1):
# -                if step > 0:
# -                    copy(step - 1, way).wait_recv()
# -                if step < n - 1:
# -                    copy(step, way).start()
# -            for way in (0, 1):
# -                multiply(step, way)
# +        for step in range(n):
# +            for way in (0, 1):
# +                if step > 0:
# +                    copy(step - 1, way).wait_recv()
# +                multiply(step, way)
# +                if step < n - 1:
# +                    copy(step, way).start()


# %% answer="16.10" name="does not wait for what arrives" judge="protocol" says="nothing\\s+orders\\s+the\\s+two"
# -                if step > 0:
# -                    copy(step - 1, way).wait_recv()
# -                if step < n - 1:
# +                if step < n - 1:


# %% answer="16.10" name="one receive semaphore each way" judge="protocol" says="counts\\s+bytes\\s+but\\s+not\\s+whose"
# -            sems = send_sem.at[way, step], recv_sem.at[way, step]
# +            sems = send_sem.at[way, step], recv_sem.at[way, 0]


# %% answer="16.10" name="one matmul at the end" judge="exercise" says="above par"
# -            for way in (0, 1):
# -                multiply(step, way)
# -        for step in range(n - 1):
# -            for way in (0, 1):
# -                copy(step, way).wait_send()
# +        for step in range(n - 1):
# +            for way in (0, 1):
# +                copy(step, way).wait_send()
# +        own = pltpu.make_async_copy(x_ref, all_ref.at[pl.ds(me * rows, rows)], send_sem.at[0, 0])
# +        own.start()
# +        own.wait()
# +        o_ref[...] = jnp.dot(
# +            all_ref[...], w_ref[...], preferred_element_type=jnp.float32
# +        )
