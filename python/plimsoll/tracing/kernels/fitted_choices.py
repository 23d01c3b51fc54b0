"""Decision trees over what is known of a convolution without a device; made by bench/accuracy/fit_choices.py.

A branch is (feature, threshold, answer up to it, answer above it).
"""

TREES = {
    # 6008 of 6334 are as measured.
    ("forward", 2): (
        "width",
        11.5,
        (
            "engine",
            54.0,
            (
                "output_values",
                183104,
                True,
                (
                    "images",
                    56.0,
                    (
                        "all_pixels",
                        1420,
                        (
                            "fewer_channels",
                            1016,
                            (
                                "all_pixels",
                                396,
                                ("inputs_mod_32", 1.5, ("images", 7.0, True, False), True),
                                True,
                            ),
                            False,
                        ),
                        ("pixels_mod_4", 0.5, True, False),
                    ),
                    True,
                ),
            ),
            (
                "pixels_mod_32",
                16.5,
                (
                    "pixels_mod_32",
                    2.5,
                    ("output_values", 8318976, True, False),
                    (
                        "tile",
                        3.5,
                        (
                            "wasted_tiles",
                            3.267,
                            (
                                "pixels_by_outputs",
                                100400,
                                True,
                                (
                                    "output_values",
                                    12697600,
                                    ("output_values", 8152000, False, True),
                                    False,
                                ),
                            ),
                            ("input_values", 614784, True, False),
                        ),
                        ("wasted_tiles", 1.24, True, ("pixels_by_inputs", 6336, True, False)),
                    ),
                ),
                (
                    "pixels_per_output",
                    0.88,
                    (
                        "images",
                        7.0,
                        ("cluster", 4.5, False, True),
                        (
                            "cluster",
                            7.5,
                            ("images", 15.0, True, False),
                            ("pixels_per_input", 0.681, False, True),
                        ),
                    ),
                    True,
                ),
            ),
        ),
        (
            "weight_tiles",
            5.5,
            (
                "pixels_by_outputs",
                20563194,
                ("workspace", 32.0, ("pixels", 680, ("images", 10.0, True, False), True), True),
                False,
            ),
            (
                "product_bytes",
                584721408,
                (
                    "pixels_mod_4",
                    0.5,
                    (
                        "output_values",
                        5996544,
                        (
                            "pixels_mod_8",
                            2.0,
                            True,
                            ("pixels", 696, ("pixels_by_outputs", 366592, True, False), False),
                        ),
                        (
                            "cluster",
                            4.5,
                            (
                                "tile",
                                5.5,
                                (
                                    "tile",
                                    3.5,
                                    (
                                        "pixels_per_output",
                                        0.453,
                                        (
                                            "wasted_tiles",
                                            1.028,
                                            ("output_values", 14680064, True, False),
                                            True,
                                        ),
                                        (
                                            "pixels_per_output",
                                            19.667,
                                            True,
                                            ("tile", 0.5, False, True),
                                        ),
                                    ),
                                    ("tile", 4.5, False, True),
                                ),
                                ("pixels_per_input", 2.285, True, False),
                            ),
                            (
                                "fewer_channels",
                                272,
                                (
                                    "smallest_side",
                                    164,
                                    True,
                                    ("output_values", 20477952, True, False),
                                ),
                                ("fewer_channels", 708, False, True),
                            ),
                        ),
                    ),
                    (
                        "cluster",
                        2.5,
                        (
                            "wasted_tiles",
                            1.468,
                            ("tile", 5.5, True, ("engine", 53.5, True, False)),
                            ("images", 14.0, True, False),
                        ),
                        (
                            "inputs",
                            1012,
                            ("wasted_tiles", 1.171, ("tile", 2.5, True, False), False),
                            ("output_values", 489600, True, False),
                        ),
                    ),
                ),
                ("inputs", 1640, False, True),
            ),
        ),
    ),
    # 6204 of 6334 are as measured.
    ("forward", 4): (
        "weights",
        908288,
        (
            "weight_tiles_of_images",
            1796,
            (
                "cluster",
                7.5,
                (
                    "weight_tiles",
                    31.0,
                    (
                        "pixels_by_inputs",
                        15.0,
                        False,
                        (
                            "weight_tiles_of_images",
                            784,
                            (
                                "inputs",
                                1564,
                                True,
                                (
                                    "engine",
                                    68.5,
                                    (
                                        "pixels_by_outputs",
                                        55680,
                                        True,
                                        ("pixels_mod_8", 0.5, True, False),
                                    ),
                                    False,
                                ),
                            ),
                            (
                                "more_channels",
                                250,
                                ("pixels", 1396, False, True),
                                (
                                    "inputs",
                                    142,
                                    ("product_bytes", 48256512, True, False),
                                    ("wasted_tiles", 2.57, True, ("input_tiles", 120, True, False)),
                                ),
                            ),
                        ),
                    ),
                    (
                        "fewer_channels",
                        432,
                        (
                            "engine",
                            68.5,
                            ("pixels_by_inputs", 430608, True, ("pixels_mod_8", 0.5, True, False)),
                            False,
                        ),
                        (
                            "weight_tiles",
                            34.0,
                            ("pixels", 257, True, False),
                            ("weights", 788992, False, True),
                        ),
                    ),
                ),
                (
                    "tile",
                    12.5,
                    (
                        "tile",
                        3.0,
                        (
                            "tile",
                            0.5,
                            (
                                "inputs",
                                600,
                                ("images", 88.0, True, ("smallest_side", 120, True, False)),
                                (
                                    "weight_tiles",
                                    21.5,
                                    (
                                        "inputs",
                                        880,
                                        ("pixels_by_outputs", 118464, False, True),
                                        ("weight_tiles_of_images", 1408, True, False),
                                    ),
                                    True,
                                ),
                            ),
                            ("pixels_per_input", 32.222, False, True),
                        ),
                        ("images", 88.0, True, ("fewer_channels", 140, True, False)),
                    ),
                    ("images", 88.0, ("inputs_per_output", 0.679, True, False), True),
                ),
            ),
            (
                "pixels",
                90.5,
                (
                    "images",
                    88.0,
                    ("tile", 12.5, True, False),
                    (
                        "outputs",
                        132,
                        True,
                        (
                            "product_bytes",
                            300363264,
                            False,
                            ("output_values", 2806144, True, ("output_tiles", 744, False, True)),
                        ),
                    ),
                ),
                (
                    "fewer_channels",
                    608,
                    (
                        "inputs",
                        222,
                        ("product_bytes", 93726720, True, False),
                        ("more_channels", 380, False, True),
                    ),
                    ("outputs_mod_32", 8.0, ("input_values", 16158720, True, False), True),
                ),
            ),
        ),
        (
            "cluster",
            5.5,
            ("workspace", 574562451, ("weight_tiles_of_images", 212, True, False), True),
            (
                "inputs",
                860,
                True,
                (
                    "pixels_mod_8",
                    0.5,
                    (
                        "output_tiles_by_image",
                        980,
                        ("weight_tiles", 136, True, ("weights", 3187840, False, True)),
                        ("inputs", 1542, False, True),
                    ),
                    (
                        "all_pixels",
                        14048,
                        ("more_channels", 1152, ("pixels_mod_32", 13.0, True, False), False),
                        True,
                    ),
                ),
            ),
        ),
    ),
    # 6145 of 6334 are as measured.
    ("grad_input", 2): (
        "pixels_per_input",
        0.232,
        (
            "more_channels",
            2032,
            (
                "fewer_channels",
                178,
                (
                    "product_bytes",
                    73924608,
                    ("workspace", 3470352, True, ("engine", 39.5, False, True)),
                    (
                        "output_values",
                        2555904,
                        ("inputs", 982, True, False),
                        ("outputs", 132, True, ("input_values", 21473280, True, False)),
                    ),
                ),
                (
                    "cluster",
                    0.5,
                    (
                        "outputs",
                        550,
                        (
                            "width",
                            10.5,
                            ("output_values", 71424, ("tile", 2.5, True, False), False),
                            True,
                        ),
                        True,
                    ),
                    (
                        "images",
                        88.0,
                        ("inputs", 1998, True, ("tile", 2.0, False, True)),
                        (
                            "weights",
                            225322,
                            ("outputs", 368, True, False),
                            (
                                "cluster",
                                10.0,
                                (
                                    "wasted_tiles",
                                    1.293,
                                    ("more_channels", 1288, False, True),
                                    (
                                        "more_channels",
                                        956,
                                        ("pixels_per_input", 0.081, True, False),
                                        False,
                                    ),
                                ),
                                True,
                            ),
                        ),
                    ),
                ),
            ),
            (
                "output_tiles",
                220,
                (
                    "fewer_channels",
                    652,
                    (
                        "pixels_by_inputs",
                        169152,
                        ("pixels_by_outputs", 4310, True, False),
                        (
                            "images",
                            72.0,
                            (
                                "pixels_mod_32",
                                6.5,
                                (
                                    "output_values",
                                    1204224,
                                    ("pixels_by_outputs", 28260, True, False),
                                    True,
                                ),
                                True,
                            ),
                            False,
                        ),
                    ),
                    True,
                ),
                ("pixels_by_inputs", 751744, False, True),
            ),
        ),
        (
            "engine",
            70.0,
            (
                "width",
                10.5,
                ("product_bytes", 60694528, True, ("weights", 364168, False, True)),
                (
                    "workspace",
                    45058195,
                    (
                        "more_channels",
                        2056,
                        ("engine", 23.5, ("weights", 69632, True, False), True),
                        False,
                    ),
                    (
                        "tile",
                        0.5,
                        (
                            "output_tiles_by_image",
                            2472,
                            (
                                "pixels",
                                5402,
                                (
                                    "pixels",
                                    210,
                                    ("weights", 174555, True, False),
                                    (
                                        "inputs",
                                        648,
                                        (
                                            "cluster",
                                            5.0,
                                            (
                                                "pixels",
                                                1484,
                                                True,
                                                ("all_pixels", 101900, False, True),
                                            ),
                                            True,
                                        ),
                                        (
                                            "inputs",
                                            872,
                                            (
                                                "inputs",
                                                696,
                                                ("pixels_by_outputs", 400896, True, False),
                                                False,
                                            ),
                                            True,
                                        ),
                                    ),
                                ),
                                ("product_bytes", 1007616, ("width", 93.5, False, True), False),
                            ),
                            (
                                "images",
                                44.0,
                                (
                                    "product_bytes",
                                    3002964,
                                    True,
                                    (
                                        "fewer_channels",
                                        272,
                                        (
                                            "weights",
                                            82944,
                                            ("workspace", 200540307, False, True),
                                            False,
                                        ),
                                        True,
                                    ),
                                ),
                                True,
                            ),
                        ),
                        ("input_values", 1222774784, True, False),
                    ),
                ),
            ),
            False,
        ),
    ),
    # 6278 of 6334 are as measured.
    ("grad_input", 4): (
        "pixels_per_output",
        0.204,
        (
            "inputs",
            1036,
            (
                "product_bytes",
                40402688,
                (
                    "pixels_by_outputs",
                    397312,
                    (
                        "inputs_per_output",
                        1.348,
                        (
                            "pixels_mod_32",
                            16.5,
                            True,
                            (
                                "wasted_tiles",
                                2.343,
                                ("workspace", 232146, False, True),
                                (
                                    "pixels_by_outputs",
                                    59584,
                                    (
                                        "cluster",
                                        1.5,
                                        False,
                                        ("product_bytes", 2267904, False, True),
                                    ),
                                    False,
                                ),
                            ),
                        ),
                        (
                            "pixels_by_outputs",
                            3920,
                            ("weights", 128000, True, False),
                            (
                                "inputs_per_output",
                                2.028,
                                ("cluster", 1.5, False, True),
                                ("tile", 0.5, False, True),
                            ),
                        ),
                    ),
                    ("output_values", 3296000, ("workspace", 3719341, False, True), False),
                ),
                (
                    "wasted_tiles",
                    2.143,
                    (
                        "outputs",
                        1952,
                        (
                            "inputs_mod_8",
                            2.5,
                            (
                                "pixels_by_outputs",
                                41984,
                                False,
                                ("pixels_mod_4", 0.5, True, ("wasted_tiles", 1.572, True, False)),
                            ),
                            False,
                        ),
                        (
                            "weight_tiles_of_images",
                            12180,
                            (
                                "workspace",
                                12416199,
                                True,
                                (
                                    "cluster",
                                    2.5,
                                    False,
                                    ("tile", 0.5, True, ("pixels_per_output", 0.035, True, False)),
                                ),
                            ),
                            True,
                        ),
                    ),
                    (
                        "cluster",
                        4.5,
                        (
                            "all_pixels",
                            430,
                            True,
                            (
                                "input_tiles_by_image",
                                1400,
                                ("outputs_mod_8", 2.5, False, True),
                                ("pixels_per_input", 0.049, True, False),
                            ),
                        ),
                        ("all_pixels", 6960, True, False),
                    ),
                ),
            ),
            (
                "tile",
                0.5,
                (
                    "pixels_per_input",
                    0.072,
                    ("pixels_per_input", 0.052, False, ("pixels_per_input", 0.055, True, False)),
                    ("weights", 1908320, True, False),
                ),
                ("output_tiles", 67.0, True, False),
            ),
        ),
        (
            "weights",
            1026048,
            (
                "outputs",
                1877,
                (
                    "pixels_per_output",
                    0.255,
                    (
                        "width",
                        8.5,
                        ("pixels_mod_4", 0.5, ("input_values", 116736, True, False), True),
                        True,
                    ),
                    (
                        "product_bytes",
                        576,
                        False,
                        (
                            "input_values",
                            1275068416,
                            (
                                "outputs",
                                414,
                                True,
                                (
                                    "outputs",
                                    450,
                                    ("tile", 0.5, ("pixels_by_inputs", 344096, False, True), True),
                                    ("engine", 48.0, False, True),
                                ),
                            ),
                            False,
                        ),
                    ),
                ),
                False,
            ),
            (
                "more_channels",
                1928,
                True,
                ("fewer_channels", 476, True, ("output_tiles_by_image", 2896, False, True)),
            ),
        ),
    ),
    # 6089 of 6336 are as measured.
    ("grad_weight", 2): (
        "pixels_per_output",
        0.766,
        (
            "engine",
            57.0,
            (
                "engine",
                21.0,
                (
                    "tile",
                    7.5,
                    False,
                    (
                        "pixels",
                        5.0,
                        False,
                        (
                            "output_tiles_by_image",
                            280,
                            (
                                "all_pixels",
                                1288,
                                True,
                                (
                                    "fewer_channels",
                                    202,
                                    True,
                                    (
                                        "pixels_mod_4",
                                        0.5,
                                        True,
                                        ("pixels_mod_32", 21.0, False, True),
                                    ),
                                ),
                            ),
                            False,
                        ),
                    ),
                ),
                ("output_tiles_by_image", 3200, ("width", 38.5, True, False), False),
            ),
            (
                "width",
                23.5,
                (
                    "inputs",
                    188,
                    (
                        "inputs_mod_32",
                        2.0,
                        False,
                        ("pixels", 90.5, False, ("tile", 3.0, True, False)),
                    ),
                    False,
                ),
                ("output_values", 812576, False, ("inputs_mod_32", 20.0, True, False)),
            ),
        ),
        (
            "fewer_channels",
            146,
            (
                "images",
                9.0,
                (
                    "more_channels",
                    62.0,
                    ("width", 228, False, True),
                    (
                        "tile",
                        0.5,
                        False,
                        (
                            "tile",
                            7.5,
                            (
                                "cluster",
                                2.5,
                                (
                                    "more_channels",
                                    140,
                                    ("inputs", 92.0, True, ("outputs_mod_32", 12.0, True, False)),
                                    (
                                        "tile",
                                        2.0,
                                        True,
                                        (
                                            "outputs",
                                            72.0,
                                            ("inputs_mod_32", 2.0, True, False),
                                            False,
                                        ),
                                    ),
                                ),
                                ("width", 440, True, False),
                            ),
                            True,
                        ),
                    ),
                ),
                (
                    "cluster",
                    3.5,
                    (
                        "engine",
                        36.5,
                        (
                            "inputs_mod_32",
                            2.0,
                            True,
                            (
                                "output_values",
                                8141312,
                                True,
                                ("pixels_per_output", 75.574, False, True),
                            ),
                        ),
                        ("tile", 5.5, ("pixels_by_inputs", 13631488, True, False), False),
                    ),
                    (
                        "cluster",
                        4.5,
                        False,
                        (
                            "product_bytes",
                            41523200,
                            (
                                "tile",
                                3.0,
                                (
                                    "pixels_mod_8",
                                    0.5,
                                    ("inputs_mod_32", 18.0, True, False),
                                    ("fewer_channels", 127, False, True),
                                ),
                                ("weight_tiles", 13.0, True, False),
                            ),
                            ("input_values", 87164928, False, True),
                        ),
                    ),
                ),
            ),
            (
                "width",
                23.5,
                (
                    "engine",
                    49.0,
                    ("product_bytes", 6582528, True, ("fewer_channels", 184, True, False)),
                    ("more_channels", 196, True, False),
                ),
                (
                    "inputs_mod_32",
                    0.5,
                    (
                        "output_tiles",
                        286,
                        ("cluster", 7.0, ("tile", 7.5, False, True), ("width", 378, True, False)),
                        True,
                    ),
                    (
                        "images",
                        28.0,
                        ("pixels_mod_32", 0.5, ("input_tiles", 948, False, True), False),
                        ("cluster", 2.5, False, ("pixels_mod_4", 0.5, True, False)),
                    ),
                ),
            ),
        ),
    ),
    # 6232 of 6334 are as measured.
    ("grad_weight", 4): (
        "pixels_per_input",
        0.129,
        (
            "tile",
            2.5,
            (
                "pixels_per_output",
                0.592,
                (
                    "images",
                    7.0,
                    ("all_pixels", 86.5, False, True),
                    ("pixels_per_output", 0.475, False, ("outputs", 144, True, False)),
                ),
                ("outputs", 161, True, False),
            ),
            (
                "pixels",
                5.0,
                False,
                (
                    "engine",
                    32.0,
                    ("input_values", 229760, True, ("pixels_per_output", 1.229, False, True)),
                    (
                        "weights",
                        972114,
                        (
                            "product_bytes",
                            75808768,
                            ("fewer_channels", 504, True, ("outputs", 976, True, False)),
                            ("all_pixels", 4656, False, True),
                        ),
                        (
                            "pixels_per_input",
                            0.049,
                            ("pixels_by_outputs", 16500, True, False),
                            (
                                "weights",
                                2048000,
                                (
                                    "output_values",
                                    802304,
                                    (
                                        "output_values",
                                        233472,
                                        True,
                                        ("more_channels", 2516, False, True),
                                    ),
                                    True,
                                ),
                                False,
                            ),
                        ),
                    ),
                ),
            ),
        ),
        (
            "tile",
            13.0,
            (
                "workspace",
                800,
                ("outputs", 224, ("images", 56.0, False, True), True),
                (
                    "pixels_per_output",
                    0.127,
                    (
                        "tile",
                        0.5,
                        ("input_values", 1370368, True, False),
                        (
                            "pixels",
                            90.5,
                            (
                                "input_values",
                                225280,
                                True,
                                ("inputs", 200, ("workspace", 31896985, True, False), False),
                            ),
                            ("outputs", 882, False, True),
                        ),
                    ),
                    (
                        "fewer_channels",
                        668,
                        (
                            "pixels_per_output",
                            6427,
                            (
                                "pixels_per_input",
                                0.197,
                                (
                                    "pixels_per_output",
                                    0.671,
                                    (
                                        "output_values",
                                        3050432,
                                        (
                                            "engine",
                                            32.0,
                                            False,
                                            ("cluster", 1.5, True, ("width", 8.5, False, True)),
                                        ),
                                        False,
                                    ),
                                    True,
                                ),
                                (
                                    "more_channels",
                                    72.5,
                                    (
                                        "pixels_by_inputs",
                                        234272,
                                        ("product_bytes", 3824, False, True),
                                        (
                                            "images",
                                            56.0,
                                            ("engine", 45.0, ("inputs", 29.5, False, True), False),
                                            True,
                                        ),
                                    ),
                                    (
                                        "product_bytes",
                                        205520896,
                                        True,
                                        (
                                            "workspace",
                                            265945104,
                                            ("pixels", 290, False, True),
                                            True,
                                        ),
                                    ),
                                ),
                            ),
                            ("pixels_per_input", 5325, False, True),
                        ),
                        (
                            "tile",
                            0.5,
                            (
                                "width",
                                26.5,
                                (
                                    "pixels_per_output",
                                    0.41,
                                    False,
                                    ("weight_tiles", 97.0, True, False),
                                ),
                                True,
                            ),
                            True,
                        ),
                    ),
                ),
            ),
            (
                "inputs",
                56.0,
                ("fewer_channels", 12.0, True, ("input_values", 137632, True, False)),
                ("weight_tiles_of_images", 5.0, ("all_pixels", 6800, True, False), True),
            ),
        ),
    ),
    # 1142 of 1145 are as measured.
    ("winograd", 2): (
        "workspace",
        1063570,
        ("input_values", 198656, False, ("output_tiles_by_image", 28.5, True, False)),
        False,
    ),
    # 1131 of 1145 are as measured.
    ("winograd", 4): (
        "output_tiles_by_image",
        126,
        (
            "tile",
            4.5,
            (
                "workspace",
                7237778,
                ("smallest_side", 194, False, ("cluster", 1.5, False, True)),
                False,
            ),
            (
                "engine",
                45.0,
                (
                    "product_bytes",
                    9504,
                    True,
                    ("inputs_per_output", 4.56, False, ("images", 24.0, True, False)),
                ),
                (
                    "smallest_side",
                    66.0,
                    (
                        "fewer_channels",
                        68.0,
                        (
                            "engine",
                            67.5,
                            (
                                "output_values",
                                641536,
                                ("inputs", 28.0, False, True),
                                ("inputs_per_output", 0.833, False, True),
                            ),
                            False,
                        ),
                        ("weights", 58368, False, True),
                    ),
                    ("pixels_by_outputs", 16100, ("pixels", 132, False, True), True),
                ),
            ),
        ),
        (
            "output_tiles_by_image",
            147,
            (
                "pixels_by_outputs",
                786432,
                ("engine", 59.0, ("smallest_side", 136, False, True), False),
                True,
            ),
            (
                "smallest_side",
                318,
                (
                    "output_tiles",
                    94.0,
                    ("outputs", 68.0, True, False),
                    (
                        "weight_tiles_of_images",
                        2.5,
                        ("pixels_by_outputs", 1327104, True, False),
                        False,
                    ),
                ),
                ("weight_tiles_of_images", 109, True, False),
            ),
        ),
    ),
}
