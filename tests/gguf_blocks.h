/* Made by scripts/make_gguf_blocks.py with gguf; not to be edited. */
static const struct {
    const char *name;
    uint32_t id;
    const char *sha256;   /* of 1000 blocks' float32 values */
    uint32_t first[4];    /* bits of the first values */
} expected[] = {
    {"F16", 1,
     "0337f9b228c0ce323d8df6a7533160450777e9cd7beb45afabfd080b3561f1dc",
     {0x43982000, 0xb9204000, 0x3dbd8000, 0xba214000}},
    {"BF16", 30,
     "6bf91e321209dd81d267c3a10c00f7b72c562c426ff144340ab4d55c37214f9e",
     {0x0dce0000, 0xf2720000, 0x577a0000, 0xa8ee0000}},
    {"Q8_0", 8,
     "6725d5d8607441fe9037a3e3c9a21f9e7f87430e7c67d4d744ed728289872b61",
     {0xc2262480, 0xc0d32c00, 0xc1f87000, 0x41fb8b00}},
    {"Q4_0", 2,
     "51c0d7fb1878d2f12d57e2f5fc416f2b9e8669d07161375cd70ffe620b44843c",
     {0xc2d9c000, 0x43d9c000, 0x44235000, 0xc3a35000}},
    {"Q4_1", 3,
     "00e1551f20e05eadb308dc246a435c24cc43dd9c3d7a6c0aa09419264816ff02",
     {0xc360207f, 0xc360207f, 0xc360215d, 0xc360219c}},
    {"Q5_0", 6,
     "9a6c46b6cb9ad9520edd867ebaaf8269f06345bdaee2ea77849f6a8e1369419e",
     {0xc5000000, 0xc5d00000, 0xc5900000, 0xc5f00000}},
    {"Q5_1", 7,
     "36586a5f7b20b64f48f36fcd0e7088b3234df11abfd47d73db05e4c7d3091679",
     {0x43264118, 0x4326408c, 0x4326428e, 0x4326405d}},
    {"Q2_K", 10,
     "b650f71795da7e58d536c80790fb50670e6937bb4897ce6fbca776f16c1889d3",
     {0xc7340006, 0xc7b40003, 0xbcc93000, 0xc7b40003}},
    {"Q3_K", 11,
     "3d2d3fbd341c59b5f1000aa5b8fcee45946bfe555c75543d1a34485c8868c2a7",
     {0x80000000, 0x442b7e00, 0x4464a800, 0xc364a800}},
    {"Q4_K", 12,
     "1b05a7a5f2d376c79b6ae1067df3e82d1d6a067786dfe738fed72cc8300e7547",
     {0xbe965240, 0xbdb49500, 0xbea377e0, 0xbea377e0}},
    {"Q5_K", 13,
     "d66d003914987264de72a3a47f21431ef01f08a20c5834a8574fdd57210c83c4",
     {0x49e51cff, 0x49e51d00, 0x49e51cfe, 0x49e51cff}},
    {"Q6_K", 14,
     "32b4dd65d83dd05b8d1e4ab8246512712cd367550f64fdda3c46da24aeea4340",
     {0xc1a91a00, 0xc3896520, 0xc35df220, 0x42536080}},
};
