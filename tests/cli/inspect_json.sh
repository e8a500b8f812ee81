# exit: 2
cd "$SOURCE/tests/io/golden"
reprise inspect --json dtypes.safetensors
mkdir "$OLDPWD/broken" && cd "$OLDPWD" && echo '{"a": 1, "a": 2}' >broken/config.json
reprise inspect broken --json
#> {"path":"dtypes.safetensors","format":"safetensors","parameters":2321,"bytes":4189,"config":null,"tokenizer":null,"tensors":[{"name":"bf16","dtype":"BF16","shape":[6],"bytes":12},{"name":"bool","dtype":"BOOL","shape":[3],"bytes":3},{"name":"empty","dtype":"F32","shape":[2,0,3],"bytes":0},{"name":"f16","dtype":"F16","shape":[1772],"bytes":3544},{"name":"f32","dtype":"F32","shape":[2,1,1],"bytes":8},{"name":"f64","dtype":"F64","shape":[3],"bytes":24},{"name":"f8_e4m3","dtype":"F8_E4M3","shape":[256],"bytes":256},{"name":"f8_e5m2","dtype":"F8_E5M2","shape":[256],"bytes":256},{"name":"i16","dtype":"I16","shape":[2],"bytes":4},{"name":"i32","dtype":"I32","shape":[2,2],"bytes":16},{"name":"i64","dtype":"I64","shape":[3],"bytes":24},{"name":"i8","dtype":"I8","shape":[3],"bytes":3},{"name":"naïve.名前","dtype":"F32","shape":[1],"bytes":4},{"name":"scalar","dtype":"F32","shape":[],"bytes":4},{"name":"u16","dtype":"U16","shape":[2],"bytes":4},{"name":"u32","dtype":"U32","shape":[2],"bytes":8},{"name":"u64","dtype":"U64","shape":[2],"bytes":16},{"name":"u8","dtype":"U8","shape":[3],"bytes":3}]}
#2> reprise inspect: 'broken/config.json' line 1: duplicate object key near '"a"'
