# Wrong answers to the exercises of lesson 17: edits of our answer, as in a diff, or whole answers. `judge` must
# refuse each, and the verdict must match the regular expression `says`. tests/test_mutants.py runs them all.


# %% answer="17.1" name="every TPU has them" judge="exercise" says="Does\\s+a\\s+v5e\\s+have\\s+one"
# -    "words_v5e": "TensorCore",
# +    "words_v5e": "SparseCore",


# %% answer="17.1" name="SparseCores for everything" judge="exercise" says="multiply\\s+two\\s+matrices\\s+with"
# -    "layer": "TensorCore",
# +    "layer": "SparseCore",


# %% answer="17.1" name="a mask for each label" judge="exercise" says="add\\s+to\\s+an\\s+element\\s+that\\s+a\\s+lane\\s+names"
# -    "votes": "SparseCore",
# +    "votes": "TensorCore",


# %% answer="17.1" name="the back end that stays" judge="exercise" says="say\\s+themselves\\s+what\\s+is\\s+copied"
# -    "softmax_a100": "Triton",
# +    "softmax_a100": "Mosaic GPU",


# %% answer="17.1" name="one road to every GPU" judge="exercise" says="neither\\s+TMA\\s+copies\\s+nor\\s+wgmma"
# -    "matmul_h100": "Mosaic GPU",
# +    "matmul_h100": "Triton",


# %% answer="17.2" name="subcores of one core" judge="protocol" says="divide\\s+the\\s+work\\s+by\\s+both\\s+axes"
# -    share = indices.size // (mesh.num_cores * mesh.num_subcores)
# +    share = indices.size // mesh.num_subcores

# -        mine = pl.ds((core * mesh.num_subcores + subcore) * share, share)
# +        mine = pl.ds(subcore * share, share)


# %% answer="17.2" name="the axes the wrong way round" judge="protocol" says="outside|nothing\\s+orders|reach"
# -        mine = pl.ds((core * mesh.num_subcores + subcore) * share, share)
# +        mine = pl.ds((core * mesh.num_cores + subcore) * share, share)


# %% answer="17.2" name="one subcore does everything" judge="exercise" says="only\\s+1\\s+of\\s+the\\s+64\\s+vector\\s+subcores"
def lookup(table, indices):
    share = 32

    def lookup_kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref):
        first = (lax.axis_index("core") == 0) & (lax.axis_index("subcore") == 0)

        @pl.when(first)
        def alone():
            @pl.loop(0, indices.size // share)
            def piece(k):
                here = pl.ds(k * share, share)
                pltpu.sync_copy(indices_hbm.at[here], indices_ref)
                pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)
                pltpu.sync_copy(rows_ref, o_hbm.at[here])

    return pl.kernel(
        lookup_kernel,
        out_type=jax.ShapeDtypeStruct((indices.size, table.shape[1]), table.dtype),
        mesh=subcores(),
        scratch_types=[
            pltpu.VMEM((share,), jnp.int32),
            pltpu.VMEM((share, table.shape[1]), table.dtype),
        ],
    )(table, indices)


# %% answer="17.2" name="everybody reads all indices" judge="budget" says="The\\s+SparseCores\\s+read"
# -        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
# -        pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)
# +        pltpu.sync_copy(indices_hbm, indices_ref)
# +        pltpu.sync_copy(table_hbm.at[indices_ref.at[mine]], rows_ref)

# -            pltpu.VMEM((share,), jnp.int32),
# +            pltpu.VMEM(indices.shape, jnp.int32),


# %% answer="17.2" name="not awaited" judge="protocol" says="reads\\s+rows_ref(?s:.)*before\\s+the\\s+copy\\s+into\\s+it"
# -    def lookup_kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref):
# +    def lookup_kernel(table_hbm, indices_hbm, o_hbm, indices_ref, rows_ref, sem):

# -        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
# -        pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)
# -        pltpu.sync_copy(rows_ref, o_hbm.at[mine])
# +        pltpu.sync_copy(indices_hbm.at[mine], indices_ref)
# +        pltpu.async_copy(table_hbm.at[indices_ref], rows_ref, sem)
# +        pltpu.sync_copy(rows_ref, o_hbm.at[mine])

# -            pltpu.VMEM((share, table.shape[1]), table.dtype),
# +            pltpu.VMEM((share, table.shape[1]), table.dtype),
# +            pltpu.SemaphoreType.DMA,


# %% answer="17.2" name="for a v6e alone" judge="protocol" says="for\\s+a\\s+v5p(?s:.)*how\\s+the\\s+work\\s+is\\s+divided"
# -    share = indices.size // (mesh.num_cores * mesh.num_subcores)
# +    share = indices.size // 32


# %% answer="17.2" name="rows in order" judge="numbers" says="it\\s+should\\s+be"
# -        pltpu.sync_copy(table_hbm.at[indices_ref], rows_ref)
# +        pltpu.sync_copy(table_hbm.at[pl.ds(0, share)], rows_ref)


# %% answer="17.2" name="XLA fetches, the kernel copies" judge="budget" says="XLA's\\s+gather,\\s+outside\\s+the\\s+kernel"
def lookup(table, indices):
    mesh = subcores()
    share = indices.size // (mesh.num_cores * mesh.num_subcores)

    def copy_kernel(rows_hbm, o_hbm, rows_ref):
        me = lax.axis_index("core") * mesh.num_subcores + lax.axis_index("subcore")
        mine = pl.ds(me * share, share)
        pltpu.sync_copy(rows_hbm.at[mine], rows_ref)
        pltpu.sync_copy(rows_ref, o_hbm.at[mine])

    rows = jnp.take(table, indices, axis=0, mode="clip")
    scratch = [pltpu.VMEM((share, table.shape[1]), table.dtype)]
    return pl.kernel(copy_kernel, out_type=rows, mesh=mesh, scratch_types=scratch)(rows)


# %% answer="17.2" name="the library" judge="exercise" says="outside\\s+the\\s+kernel:\\s+max,\\s+min"
def lookup(table, indices):
    from course_lib.kernels import sparse_core

    return sparse_core.gather_rows(table, indices)


# %% answer="17.3" name="the gather alone" judge="exercise" says="leaves\\s+out\\s+what\\s+XLA\\s+does"
# -widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
# +widths |= {"tiled": "1024 bytes", "packed": "192 bytes", "widest": 40}


# %% answer="17.3" name="bytes, not granules" judge="exercise" says="no\\s+whole\\s+number\\s+of\\s+granules"
# -widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
# +widths |= {"tiled": "1024 bytes", "packed": "752 bytes", "widest": 42}


# %% answer="17.3" name="a third of 512 bytes" judge="exercise" says="How\\s+many\\s+granules\\s+do\\s+they\\s+take"
# -widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
# +widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 42}


# %% answer="17.3" name="only what is read" judge="exercise" says="It\\s+does\\s+both"
# -widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
# +widths |= {"tiled": "512 bytes", "packed": "800 bytes", "widest": 40}


# %% answer="17.3" name="XLA writes the row alone" judge="exercise" says="What\\s+XLA\\s+writes\\s+is\\s+counted\\s+as\\s+80\\s+bytes"
# -widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
# +widths |= {"tiled": "1024 bytes", "packed": "368 bytes", "widest": 40}


# %% answer="17.3" name="XLA reads the row alone" judge="exercise" says="XLA's\\s+read\\)\\s+one\\s+is\\s+counted\\s+as\\s+80\\s+bytes(?s:.)*Which\\s+rule"
# -widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
# +widths |= {"tiled": "1024 bytes", "packed": "784 bytes", "widest": 40}


# %% answer="17.3" name="the result alone is packed" judge="exercise" says="the\\s+read\\s+as\\s+a\\s+whole\\s+row\\s+of\\s+tiles"
# -widths |= {"tiled": "1024 bytes", "packed": "800 bytes", "widest": 40}
# +widths |= {"tiled": "592 bytes", "packed": "800 bytes", "widest": 40}


# %% answer="17.4" name="rows by a vector store" judge="exercise" says="How\\s+large\\s+is\\s+what\\s+this\\s+line\\s+adds(?s:.)*take\\s+line\\s+B\\s+out"
# -    "B": "stream.indirect.scatter.add.f32",
# +    "B": "vst.idx.add",


# %% answer="17.4" name="lanes by a stream" judge="exercise" says="adds\\s+whole\\s+rows\\s+to\\s+shared\\s+memory"
# -    "D": "vst.idx.add",
# +    "D": "stream.indirect.scatter.add.f32",


# %% answer="17.4" name="C stores" judge="exercise" says="before\\s+anything\\s+is\\s+stored(?s:.)*in\\s+place\\s+of\\s+line\\s+C"
# -    "C": "vunique",
# +    "C": "vst.idx.add",


# %% answer="17.4" name="a subcore's share at once" judge="exercise" says="share\\s+of\\s+the\\s+1,024\\s+labels"
# -    "labels": 8,
# +    "labels": 32,


# %% answer="17.5" name="as on a TPU" judge="exercise" says="Does\\s+anything\\s+order\\s+them\\s+on\\s+a\\s+GPU"
# -    "column_sums": "a race",
# +    "column_sums": "right",


# %% answer="17.5" name="the edge is padded" judge="exercise" says="Do\\s+512\\s+divide\\s+1,000"
# -    "doubled": "out of bounds",
# +    "doubled": "right",


# %% answer="17.5" name="nothing passes between steps" judge="exercise" says="what\\s+would\\s+Triton\\s+put\\s+VMEM\\s+into"
# -    "squared": "refused",
# +    "squared": "right",


# %% answer="17.5" name="384 is a multiple of 128" judge="exercise" says="which\\s+numbers\\s+of\\s+elements\\s+does\\s+Triton\\s+take"
# -    "wide": "refused",
# +    "wide": "right",


# %% answer="17.6" name="as it was" judge="races" says="(?s)^(?!.*wait_read_only).*first\\s+wait\\s+for\\s+that\\s+copy,\\s+in\\s+line\\s+10,"
# -        plgpu.wait_smem_to_gmem(0, wait_read_only=True)


# %% answer="17.6" name="the wait comes after the store" judge="races" says="(?s)^(?!.*wait_read_only).*in\\s+line\\s+8,\\s+comes\\s+after\\s+the\\s+write"
# -        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
# -        o_smem[...] = 2 * x_smem[...]
# +        o_smem[...] = 2 * x_smem[...]
# +        plgpu.wait_smem_to_gmem(0, wait_read_only=True)


# %% answer="17.6" name="waits for all copies but one" judge="races" says="(?s)^(?!.*wait_read_only).*in\\s+line\\s+7,\\s+lets\\s+the\\s+latest\\s+copy"
# -        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
# +        plgpu.wait_smem_to_gmem(1, wait_read_only=True)


# %% answer="17.6" name="another commit" judge="races" says="written\\s+again\\s+while\\s+TMA"
# -        plgpu.wait_smem_to_gmem(0, wait_read_only=True)
# +        plgpu.commit_smem()


# %% answer="17.6" name="the last wait moves" judge="numbers" says="ends\\s+while\\s+TMA"
# -        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])
# -    plgpu.wait_smem_to_gmem(0)
# +        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[here])


# %% answer="17.6" name="no commit any more" judge="races" says="commit_smem\\(\\)\\s+between\\s+the\\s+two"
# -        o_smem[...] = 2 * x_smem[...]
# -        plgpu.commit_smem()
# +        o_smem[...] = 2 * x_smem[...]


# %% answer="17.6" name="without TMA" judge="exercise" says="TMA\\s+does\\s+not\\s+copy\\s+both"
def double_kernel(x_gmem, o_gmem, x_smem, o_smem, arrived):
    for piece in range(2):
        here = pl.ds((2 * lax.axis_index("i") + piece) * PIECE, PIECE)
        o_gmem[here] = 2 * x_gmem[here]


# %% answer="17.7" name="one arrival" judge="numbers" says="expects\\s+1\\s+arrival,\\s+but\\s+2\\s+arrive\\s+before\\s+the\\s+kernel\\s+waits\\s+once:\\s+the\\s+copies\\s+of\\s+lines\\s+14\\s+and\\s+15"
# -            plgpu.Barrier(num_arrivals=2),
# +            plgpu.Barrier(num_arrivals=1),


# %% answer="17.7" name="no wait for the copies" judge="numbers" says="barrier_wait\\s+is\\s+there\\s+for\\s+the\\s+copies\\s+of\\s+lines\\s+14\\s+and\\s+15"
# -                plgpu.barrier_wait(arrived)


# %% answer="17.7" name="no wait for wgmma" judge="races" says="wgmma\\s+may\\s+still\\s+be\\s+reading"
# -                plgpu.wgmma_wait(0)


# %% answer="17.7" name="rows and columns of the grid" judge="numbers" says="Nothing\\s+has\\s+written\\s+this\\s+memory"
# -        rows = pl.ds(lax.axis_index("i") * bm, bm)
# -        columns = pl.ds(lax.axis_index("j") * bn, bn)
# +        rows = pl.ds(lax.axis_index("j") * bm, bm)
# +        columns = pl.ds(lax.axis_index("i") * bn, bn)


# %% answer="17.7" name="no commit" judge="races" says="commit_smem\\(\\)\\s+between\\s+the\\s+two"
# -        o_smem[...] = y.astype(o_smem.dtype)
# -        plgpu.commit_smem()
# +        o_smem[...] = y.astype(o_smem.dtype)


# %% answer="17.7" name="no wait at the end" judge="numbers" says="ends\\s+while\\s+TMA"
# -        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows, columns])
# -        plgpu.wait_smem_to_gmem(0)
# +        plgpu.copy_smem_to_gmem(o_smem, o_gmem.at[rows, columns])


# %% answer="17.7" name="relu, then the bias" judge="numbers" says="relu\\s+comes\\s+before\\s+the\\s+bias"
# -        y = jnp.maximum(sums + bias_of(b_gmem, columns, sums.shape), 0)
# +        y = jnp.maximum(sums, 0) + bias_of(b_gmem, columns, sums.shape)


# %% answer="17.7" name="the first columns' bias" judge="numbers" says="adds\\s+the\\s+bias\\s+of\\s+columns\\s+0\\s+to\\s+127"
# -        y = jnp.maximum(sums + bias_of(b_gmem, columns, sums.shape), 0)
# +        y = jnp.maximum(sums + bias_of(b_gmem, pl.ds(0, bn), sums.shape), 0)


# %% answer="17.7" name="one step too few" judge="numbers" says="the\\s+last\\s+64\\s+elements\\s+of\\s+K\\s+are\\s+left\\s+out"
# -            @pl.loop(0, k // bk)
# +            @pl.loop(0, k // bk - 1)


# %% answer="17.7" name="one step" judge="numbers" says="only\\s+the\\s+first\\s+64\\s+elements\\s+of\\s+K\\s+are\\s+multiplied"
# -            @pl.loop(0, k // bk)
# +            @pl.loop(0, 1)


# %% answer="17.7" name="the same blocks in every step" judge="numbers" says="every\\s+step\\s+of\\s+the\\s+loop\\s+multiplies\\s+the\\s+first\\s+64"
# -                here = pl.ds(step * bk, bk)
# +                here = pl.ds(0, bk)


# %% answer="17.7" name="an accumulator for each step" judge="numbers" says="only\\s+the\\s+last\\s+64\\s+elements\\s+of\\s+K\\s+are\\s+in\\s+the\\s+sum"
# -        def summed(acc_ref):
# -            @pl.loop(0, k // bk)
# -            def add(step):
# -                here = pl.ds(step * bk, bk)
# -                plgpu.copy_gmem_to_smem(x_gmem.at[rows, here], x_smem, arrived)
# -                plgpu.copy_gmem_to_smem(w_gmem.at[here, columns], w_smem, arrived)
# -                plgpu.barrier_wait(arrived)
# -                plgpu.wgmma(acc_ref, x_smem, w_smem)
# -                plgpu.wgmma_wait(0)
# -
# -            return acc_ref[...]
# -
# -        sums = pl.run_scoped(summed, plgpu.ACC((bm, bn), jnp.float32))
# +        def product(acc_ref):
# +            plgpu.wgmma(acc_ref, x_smem, w_smem)
# +            return acc_ref[...]
# +
# +        def add(step, before):
# +            here = pl.ds(step * bk, bk)
# +            plgpu.copy_gmem_to_smem(x_gmem.at[rows, here], x_smem, arrived)
# +            plgpu.copy_gmem_to_smem(w_gmem.at[here, columns], w_smem, arrived)
# +            plgpu.barrier_wait(arrived)
# +            return pl.run_scoped(product, plgpu.ACC((bm, bn), jnp.float32))
# +
# +        sums = lax.fori_loop(0, k // bk, add, jnp.zeros((bm, bn), jnp.float32))


# %% answer="17.7" name="the bias in every step" judge="numbers" says="the\\s+bias\\s+is\\s+added\\s+in\\s+every\\s+step\\s+of\\s+the\\s+loop"
# -        y = jnp.maximum(sums + bias_of(b_gmem, columns, sums.shape), 0)
# +        y = jnp.maximum(sums + k // bk * bias_of(b_gmem, columns, sums.shape), 0)


# %% answer="17.7" name="jnp.dot of values" judge="compiler" says="jnp.dot\\s+or\\s+@\\s+multiplies\\s+values\\s+in\\s+registers"
# -        def summed(acc_ref):
# -            @pl.loop(0, k // bk)
# -            def add(step):
# -                here = pl.ds(step * bk, bk)
# -                plgpu.copy_gmem_to_smem(x_gmem.at[rows, here], x_smem, arrived)
# -                plgpu.copy_gmem_to_smem(w_gmem.at[here, columns], w_smem, arrived)
# -                plgpu.barrier_wait(arrived)
# -                plgpu.wgmma(acc_ref, x_smem, w_smem)
# -                plgpu.wgmma_wait(0)
# -
# -            return acc_ref[...]
# -
# -        sums = pl.run_scoped(summed, plgpu.ACC((bm, bn), jnp.float32))
# +        def add(step, before):
# +            here = pl.ds(step * bk, bk)
# +            plgpu.copy_gmem_to_smem(x_gmem.at[rows, here], x_smem, arrived)
# +            plgpu.copy_gmem_to_smem(w_gmem.at[here, columns], w_smem, arrived)
# +            plgpu.barrier_wait(arrived)
# +            return before + jnp.dot(x_smem[...], w_smem[...])
# +
# +        sums = lax.fori_loop(0, k // bk, add, jnp.zeros((bm, bn), x.dtype))


# %% answer="17.7" name="jnp.dot into the accumulator" judge="numbers" says="Only\\s+plgpu.wgmma\\s+adds\\s+to\\s+it"
# -                plgpu.wgmma(acc_ref, x_smem, w_smem)
# -                plgpu.wgmma_wait(0)
# +                acc_ref[...] = jnp.dot(x_smem[...], w_smem[...])


# %% answer="17.7" name="jnp.dot of refs" judge="numbers" says="(?s)did\\s+arithmetic\\s+on\\s+a\\s+Ref.*takes\\s+refs\\s+in\\s+shared\\s+memory\\s+as\\s+they\\s+are"
# -                plgpu.wgmma(acc_ref, x_smem, w_smem)
# -                plgpu.wgmma_wait(0)
# +                acc_ref[...] += jnp.dot(x_smem, w_smem)


# %% answer="17.7" name="bias and relu outside" judge="exercise" says="outside\\s+the\\s+kernel"
# -        y = jnp.maximum(sums + bias_of(b_gmem, columns, sums.shape), 0)
# +        y = sums

# -    return plgpu.kernel(
# +    y = plgpu.kernel(

# -    )(x, w, b)
# +    )(x, w, b)
# +    return jnp.maximum(y + b, 0)


# %% answer="17.8" name="the gate's own derivative" judge="numbers" says="dg\\s+has\\s+s,\\s+not\\s+s"
# -    dg_ref[...] = cotangent_ref[...] * x_ref[...] * s * (1 - s)
# +    dg_ref[...] = cotangent_ref[...] * x_ref[...] * s


# %% answer="17.8" name="no cotangent" judge="numbers" says="without\\s+the\\s+cotangent"
# -    dx_ref[...] = cotangent_ref[...] * s
# +    dx_ref[...] = s


# %% answer="17.8" name="gradients the wrong way round" judge="numbers" says="dx\\s+and\\s+dg\\s+are\\s+swapped"
# -    return pl.pallas_call(gate_gradient_kernel, out_shape=(like, like))(*saved, cotangent)
# +    dx, dg = pl.pallas_call(gate_gradient_kernel, out_shape=(like, like))(*saved, cotangent)
# +    return dg, dx


# %% answer="17.8" name="the backward pass in plain JAX" judge="exercise" says="part\\s+of\\s+the\\s+gradient\\s+is\\s+not\\s+in\\s+a\\s+kernel"
# -    like = jax.ShapeDtypeStruct(cotangent.shape, cotangent.dtype)
# -    return pl.pallas_call(gate_gradient_kernel, out_shape=(like, like))(*saved, cotangent)
# +    x, g = saved
# +    s = jax.nn.sigmoid(g)
# +    return cotangent * s, cotangent * x * s * (1 - s)


# %% answer="17.8" name="saves y for x" judge="numbers" says="it\\s+should\\s+be"
# -    return gated(x, g), (x, g)
# +    y = gated(x, g)
# +    return y, (y, g)


# %% answer="17.8" name="s without a sigmoid" judge="numbers" says="s\\s+is\\s+g\\s+itself,\\s+not\\s+sigmoid"
# -    s = jax.nn.sigmoid(g_ref[...])
# +    s = g_ref[...]


# %% answer="17.8" name="the sigmoid of the cotangent" judge="numbers" says="s\\s+is\\s+sigmoid\\s+of\\s+the\\s+cotangent"
# -    s = jax.nn.sigmoid(g_ref[...])
# +    s = jax.nn.sigmoid(cotangent_ref[...])


# %% answer="17.8" name="g for the cotangent" judge="numbers" says="g\\s+stands\\s+where\\s+the\\s+cotangent\\s+should\\s+be"
# -    dx_ref[...] = cotangent_ref[...] * s
# -    dg_ref[...] = cotangent_ref[...] * x_ref[...] * s * (1 - s)
# +    dx_ref[...] = g_ref[...] * s
# +    dg_ref[...] = g_ref[...] * x_ref[...] * s * (1 - s)


# %% answer="17.8" name="the cotangent second" judge="numbers" says="g\\s+and\\s+the\\s+cotangent\\s+are\\s+exchanged"
# -def gate_gradient_kernel(x_ref, g_ref, cotangent_ref, dx_ref, dg_ref):
# +def gate_gradient_kernel(x_ref, cotangent_ref, g_ref, dx_ref, dg_ref):


# %% answer="17.8" name="the cotangent first" judge="numbers" says="g\\s+stands\\s+where\\s+the\\s+cotangent\\s+should\\s+be"
# -    return pl.pallas_call(gate_gradient_kernel, out_shape=(like, like))(*saved, cotangent)
# +    return pl.pallas_call(gate_gradient_kernel, out_shape=(like, like))(cotangent, *saved)


# %% answer="17.9" name="no barrier behind the zeros" judge="protocol" says="subcore_barrier"
# -        plsc.subcore_barrier()  # all of the sum is zero


# %% answer="17.9" name="no barrier behind the sum" judge="protocol" says="subcore_barrier"
# -        plsc.subcore_barrier()  # all rows have been added


# %% answer="17.9" name="writes in place of adding" judge="protocol" says="nothing\\s+says\\s+which\\s+of\\s+them\\s+stays"
# -            pltpu.sync_copy(rows_ref, sums_shared.at[segments_ref], add=True)
# +            pltpu.sync_copy(rows_ref, sums_shared.at[segments_ref])


# %% answer="17.9" name="not cleared" judge="numbers" says="it\\s+should\\s+be"
# -        pltpu.sync_copy(rows_ref.at[pl.ds(0, mine)], sums_shared.at[stripe])


# %% answer="17.9" name="the library adds up outside" judge="exercise" says="outside\\s+the\\s+kernel"
def segment_sum(rows, segments):
    from course_lib.kernels import sparse_core

    return sparse_core.scatter_add(rows, segments, 512)


# %% answer="17.9" name="everybody reads all segments" judge="budget" says="segments_hbm\\s+\\(32\\s+times\\s+its\\s+size\\)(?s:.)*more\\s+is\\s+moved\\s+than\\s+the\\s+exercise\\s+allows"
# -            pltpu.sync_copy(segments_hbm.at[here], segments_ref)
# -            pltpu.sync_copy(rows_hbm.at[here, columns], rows_ref)
# -            pltpu.sync_copy(rows_ref, sums_shared.at[segments_ref], add=True)
# +            pltpu.sync_copy(segments_hbm, segments_ref)
# +            pltpu.sync_copy(rows_hbm.at[here, columns], rows_ref)
# +            pltpu.sync_copy(rows_ref, sums_shared.at[segments_ref.at[here]], add=True)

# -            pltpu.VMEM((128,), jnp.int32),
# +            pltpu.VMEM((n,), jnp.int32),


# %% answer="17.9" name="zeros from HBM" judge="budget" says="zeros_hbm\\s+\\(twice\\s+its\\s+size\\)(?s:.)*XLA's\\s+broadcast_in_dim"
# -    def sum_kernel(rows_hbm, segments_hbm, o_hbm, sums_shared, segments_ref, rows_ref):
# +    def sum_kernel(rows_hbm, segments_hbm, zeros_hbm, o_hbm, sums_shared, segments_ref, rows_ref):

# -        pltpu.sync_copy(rows_ref.at[pl.ds(0, mine)], sums_shared.at[stripe])
# +        pltpu.sync_copy(zeros_hbm.at[stripe], sums_shared.at[stripe])

# -    )(rows, segments)
# +    )(rows, segments, jnp.zeros((512, part), rows.dtype))


# %% answer="17.9" name="every row twice" judge="budget" says="rows_hbm\\s+\\(twice\\s+its\\s+size\\)"
# -            pltpu.sync_copy(rows_hbm.at[here, columns], rows_ref)
# +            pltpu.sync_copy(rows_hbm.at[here, columns], rows_ref)
# +            pltpu.sync_copy(rows_hbm.at[here, columns], rows_ref)


# %% answer="17.9" name="both add up all columns" judge="protocol" says="give\\s+each\\s+a\\s+part\\s+of\\s+the\\s+result\\s+of\\s+its\\s+own"
# -        columns = pl.ds(lax.axis_index("core") * part, part)
# +        columns = pl.ds(0, part)


# %% answer="17.9" name="some lanes are not cleared" judge="numbers" says="Nothing\\s+has\\s+written\\s+this\\s+memory"
# -            @pl.loop(0, part, step=lanes)
# +            @pl.loop(0, part - lanes, step=lanes)


# %% answer="17.10" name="as given" judge="exercise" says="above par(?s:.)*read\\s+8,192\\s+bytes\\s+of\\s+indices_hbm\\s+and\\s+2,097,152\\s+bytes\\s+of\\s+table_hbm"
def bags(table, indices):
    return fetched_bags(table, indices)


# %% answer="17.10" name="no barrier behind the table" judge="protocol" says="subcore_barrier"
# -        plsc.subcore_barrier()  # the rows that occur are there


# %% answer="17.10" name="no barrier behind the counts" judge="protocol" says="subcore_barrier"
# -        plsc.subcore_barrier()  # all indices have been counted


# %% answer="17.10" name="adds to what was there" judge="numbers" says="Nothing\\s+has\\s+written\\s+this\\s+memory"
# -            pltpu.sync_copy(table_shared.at[of_k], sums_ref, add=k > 0)
# +            pltpu.sync_copy(table_shared.at[of_k], sums_ref, add=True)


# %% answer="17.10" name="fetches the rows that do not occur" judge="numbers" says="Nothing\\s+has\\s+written\\s+this\\s+memory"
# -            wanted_ref[here] = jnp.where(wanted_ref[here] > 0, row, -1)
# +            wanted_ref[here] = jnp.where(wanted_ref[here] > 0, -1, row)


# %% answer="17.10" name="bags of neighbors" judge="numbers" says="it\\s+should\\s+be"
# -            here = pl.ds(k * count + subcore * mine, mine)
# +            here = pl.ds(8 * subcore * mine + k * mine, mine)


# %% answer="17.10" name="one-hot rows on the MXU" judge="protocol" says="takes\\s+yours\\s+to\\s+the\\s+TensorCore(?s:.)*They\\s+have\\s+no\\s+matrix\\s+unit"
def bags(table, indices):
    def bags_kernel(table_ref, indices_ref, o_ref):
        rows = lax.broadcasted_iota(jnp.int32, (8, 256, 512), 2)
        times = (indices_ref[...][:, :, None] == rows).astype(jnp.float32).sum(axis=0)
        o_ref[...] = jnp.dot(times, table_ref[...], precision="highest")

    out = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    return pl.pallas_call(bags_kernel, out_shape=out)(table, indices.reshape(8, 256))


# %% answer="17.10" name="XLA's gather and sum" judge="protocol" says="XLA\\s+computes\\s+all\\s+of\\s+it"
def bags(table, indices):
    return jnp.take(table, indices, axis=0).reshape(8, 256, 256).sum(axis=0)
