"""Decision trees over what is known of a convolution without a device; made by bench/accuracy/fit_choices.py.

A branch is (feature, threshold, answer up to it, answer above it).
"""

TREES = {
    # 2640 of 2747 are as measured.
    ("forward", 2): (
        "pixels",
        132,
        (
            "pixels_mod_8",
            0.5,
            ("workspace", 92168, False, True),
            (
                "workspace",
                1295698,
                (
                    "engine",
                    53.5,
                    ("output_values", 325824, True, False),
                    ("all_pixels", 484, False, True),
                ),
                (
                    "weights",
                    76032,
                    ("all_pixels", 1584, False, True),
                    (
                        "engine",
                        54.0,
                        (
                            "workspace",
                            6709264,
                            ("inputs", 552, ("all_pixels", 490, False, True), False),
                            True,
                        ),
                        (
                            "all_pixels",
                            3168,
                            ("all_pixels", 588, ("all_pixels", 538, False, True), False),
                            ("inputs_per_output", 3.451, ("outputs", 1080, True, False), False),
                        ),
                    ),
                ),
            ),
        ),
        (
            "outputs",
            800,
            (
                "workspace",
                32.0,
                ("pixels", 680, False, True),
                (
                    "pixels_mod_8",
                    0.5,
                    True,
                    (
                        "output_values",
                        16051200,
                        (
                            "pixels",
                            182,
                            ("input_values", 1129472, True, ("images", 80.0, False, True)),
                            True,
                        ),
                        False,
                    ),
                ),
            ),
            (
                "images",
                56.0,
                ("pixels_mod_8", 0.5, True, ("weights", 1215488, True, False)),
                ("pixels", 226, True, ("output_values", 49053696, False, True)),
            ),
        ),
    ),
    # 2706 of 2747 are as measured.
    ("forward", 4): (
        "weights",
        901120,
        (
            "inputs",
            296,
            ("inputs", 14.0, ("inputs", 5.0, True, False), True),
            (
                "more_channels",
                436,
                (
                    "workspace",
                    5316690,
                    True,
                    (
                        "output_values",
                        2805760,
                        (
                            "engine",
                            52.5,
                            True,
                            ("outputs", 60.0, True, ("outputs", 240, False, True)),
                        ),
                        True,
                    ),
                ),
                (
                    "images",
                    80.0,
                    (
                        "inputs",
                        656,
                        True,
                        (
                            "inputs",
                            880,
                            (
                                "all_pixels",
                                2746,
                                (
                                    "pixels_mod_8",
                                    0.5,
                                    True,
                                    (
                                        "workspace",
                                        152144,
                                        True,
                                        ("engine", 52.5, True, ("weights", 503808, False, True)),
                                    ),
                                ),
                                True,
                            ),
                            ("engine", 68.5, True, ("inputs", 1360, True, False)),
                        ),
                    ),
                    (
                        "pixels",
                        85.0,
                        False,
                        ("engine", 52.5, True, ("pixels", 226, True, ("inputs", 576, True, False))),
                    ),
                ),
            ),
        ),
        (
            "images",
            14.0,
            (
                "inputs_per_output",
                1.833,
                ("pixels_mod_8", 2.5, True, ("weights", 1215488, True, False)),
                False,
            ),
            ("more_channels", 1396, True, ("pixels", 30.5, ("inputs", 1232, True, False), False)),
        ),
    ),
    # 2695 of 2747 are as measured.
    ("grad_input", 2): (
        "pixels",
        90.5,
        (
            "fewer_channels",
            180,
            True,
            (
                "inputs_per_output",
                2.929,
                (
                    "outputs",
                    2032,
                    (
                        "output_values",
                        5959680,
                        ("engine", 62.0, ("outputs", 480, False, True), True),
                        False,
                    ),
                    ("inputs", 808, False, True),
                ),
                (
                    "outputs",
                    544,
                    (
                        "engine",
                        62.0,
                        False,
                        ("input_values", 5137920, ("outputs", 280, False, True), False),
                    ),
                    True,
                ),
            ),
        ),
        (
            "engine",
            70.0,
            (
                "input_values",
                42205184,
                (
                    "inputs",
                    1704,
                    (
                        "workspace",
                        46626963,
                        (
                            "outputs",
                            1984,
                            True,
                            ("all_pixels", 2800, ("inputs", 768, False, True), True),
                        ),
                        (
                            "pixels",
                            182,
                            False,
                            (
                                "images",
                                40.0,
                                (
                                    "inputs",
                                    112,
                                    True,
                                    (
                                        "inputs",
                                        160,
                                        False,
                                        (
                                            "all_pixels",
                                            69632,
                                            True,
                                            ("input_values", 20119552, False, True),
                                        ),
                                    ),
                                ),
                                True,
                            ),
                        ),
                    ),
                    ("all_pixels", 2736, True, ("images", 20.0, False, True)),
                ),
                (
                    "images",
                    40.0,
                    ("outputs", 64.0, True, False),
                    ("all_pixels", 81920, False, True),
                ),
            ),
            False,
        ),
    ),
    # 2709 of 2747 are as measured.
    ("grad_input", 4): (
        "more_channels",
        1904,
        (
            "pixels",
            56.5,
            (
                "fewer_channels",
                180,
                True,
                (
                    "input_values",
                    156800,
                    ("weights", 82208, False, True),
                    (
                        "fewer_channels",
                        428,
                        (
                            "weights",
                            238080,
                            ("pixels", 42.5, False, ("fewer_channels", 244, True, False)),
                            False,
                        ),
                        ("outputs", 1152, True, False),
                    ),
                ),
            ),
            (
                "weights",
                1589248,
                (
                    "fewer_channels",
                    228,
                    True,
                    (
                        "pixels",
                        69.5,
                        (
                            "outputs",
                            384,
                            ("workspace", 4276306, ("inputs", 248, False, True), False),
                            True,
                        ),
                        (
                            "images",
                            56.0,
                            True,
                            (
                                "more_channels",
                                480,
                                ("inputs", 272, True, False),
                                (
                                    "output_values",
                                    7356416,
                                    ("all_pixels", 13184, True, False),
                                    True,
                                ),
                            ),
                        ),
                    ),
                ),
                False,
            ),
        ),
        (
            "output_values",
            1191936,
            (
                "images",
                14.0,
                ("input_values", 628992, True, ("outputs", 288, True, False)),
                ("input_values", 4177920, False, True),
            ),
            (
                "pixels_mod_8",
                0.5,
                (
                    "all_pixels",
                    3648,
                    ("inputs", 2032, ("input_values", 784384, False, True), False),
                    False,
                ),
                False,
            ),
        ),
    ),
    # 2559 of 2749 are as measured.
    ("grad_weight", 2): (
        "fewer_channels",
        152,
        (
            "workspace",
            103888,
            False,
            (
                "workspace",
                14893520,
                (
                    "pixels",
                    8480,
                    (
                        "pixels",
                        56.5,
                        ("more_channels", 848, ("inputs", 336, True, False), True),
                        (
                            "engine",
                            44.5,
                            True,
                            (
                                "outputs",
                                384,
                                (
                                    "images",
                                    10.0,
                                    ("outputs", 61.0, ("inputs_mod_32", 12.0, True, False), True),
                                    True,
                                ),
                                False,
                            ),
                        ),
                    ),
                    ("more_channels", 56.0, False, ("weights", 2880, True, False)),
                ),
                True,
            ),
        ),
        (
            "inputs",
            392,
            (
                "engine",
                49.0,
                ("all_pixels", 73.5, False, True),
                (
                    "pixels",
                    530,
                    ("inputs_per_output", 0.437, False, ("more_channels", 328, False, True)),
                    ("inputs_mod_32", 12.0, True, ("all_pixels", 34816, False, True)),
                ),
            ),
            (
                "pixels",
                538,
                (
                    "engine",
                    37.0,
                    (
                        "weights",
                        901120,
                        (
                            "inputs",
                            992,
                            (
                                "pixels",
                                90.5,
                                ("inputs", 912, False, ("images", 26.0, True, False)),
                                True,
                            ),
                            ("output_values", 672000, True, False),
                        ),
                        False,
                    ),
                    False,
                ),
                ("inputs_mod_32", 8.0, True, False),
            ),
        ),
    ),
    # 2692 of 2747 are as measured.
    ("grad_weight", 4): (
        "pixels",
        110,
        (
            "engine",
            67.5,
            (
                "pixels",
                8.5,
                False,
                (
                    "engine",
                    32.0,
                    (
                        "inputs",
                        208,
                        ("outputs", 216, False, True),
                        ("all_pixels", 538, True, ("inputs_per_output", 15.167, False, True)),
                    ),
                    ("fewer_channels", 480, True, ("inputs", 824, True, False)),
                ),
            ),
            (
                "all_pixels",
                506,
                ("inputs_per_output", 0.369, False, True),
                ("pixels", 90.5, False, ("inputs", 1168, True, False)),
            ),
        ),
        (
            "inputs",
            36.0,
            ("engine", 44.0, ("engine", 37.0, ("engine", 27.0, False, True), False), True),
            (
                "engine",
                25.0,
                False,
                (
                    "weights",
                    444416,
                    (
                        "more_channels",
                        44.0,
                        False,
                        ("images", 1.5, ("pixels", 6176, True, False), True),
                    ),
                    (
                        "input_values",
                        5462016,
                        ("images", 1.5, False, True),
                        (
                            "pixels",
                            680,
                            (
                                "fewer_channels",
                                832,
                                (
                                    "pixels",
                                    290,
                                    ("outputs", 1012, False, ("images", 80.0, True, False)),
                                    ("output_values", 27156480, True, False),
                                ),
                                False,
                            ),
                            True,
                        ),
                    ),
                ),
            ),
        ),
    ),
    # 479 of 481 are as measured.
    ("winograd", 2): ("workspace", 895570, ("input_values", 193280, False, True), False),
    # 472 of 481 are as measured.
    ("winograd", 4): (
        "output_values",
        1191936,
        (
            "weights",
            86016,
            (
                "pixels",
                182,
                (
                    "workspace",
                    4753554,
                    (
                        "outputs",
                        248,
                        ("all_pixels", 588, False, ("inputs", 40.0, False, True)),
                        True,
                    ),
                    False,
                ),
                (
                    "all_pixels",
                    17028,
                    (
                        "engine",
                        59.0,
                        (
                            "inputs_per_output",
                            0.875,
                            ("all_pixels", 4420, ("engine", 49.0, False, True), False),
                            True,
                        ),
                        ("all_pixels", 2592, True, False),
                    ),
                    False,
                ),
            ),
            False,
        ),
        (
            "output_values",
            2228224,
            ("engine", 59.0, ("weights", 24576, ("workspace", 18729350, False, True), True), False),
            False,
        ),
    ),
}
